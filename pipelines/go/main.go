// The pages visited on each day, in each country and on each device, with differential privacy: Python's transforms in a Go pipeline.
//
// dpsketch expansion-service --port 8097
// go run . --runner=prism --output=$HOME/days/days
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/xlang/python"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"
)

var (
	service = flag.String("expansion_service", "localhost:8097", "where dpsketch expansion-service listens")
	output  = flag.String("output", "", "how the names of the files of releases begin")
)

const urn = "beam:transforms:python:fully_qualified_named"

// Visit is a record: who visited which page, when and where.
type Visit struct {
	Person  string `beam:"person"`
	Country string `beam:"country"`
	Device  string `beam:"device"`
	At      string `beam:"at"`
	Page    string `beam:"page"`
}

// Frequencies contains the settings of PrivateFrequencies. A block or a list of settings is text in JSON.
type Frequencies struct {
	Item    string `beam:"item"`
	Listed  string `beam:"listed_items"`
	Keys    string `beam:"keys"`
	Privacy string `beam:"privacy"`
	Unit    string `beam:"privacy_unit"`
}

// Query contains the settings of QueryReleases.
type Query struct {
	Ask string `beam:"ask"`
}

// Write contains the settings of WriteReleases.
type Write struct {
	Path string `beam:"path"`
}

// Release is a row of PrivateFrequencies: the columns of its key, then those of all releases. Fields are named as in Python, with
// a capital first letter. Shares that are not known are nil.
type Release struct {
	Country                string   `beam:"country"`
	Device                 string   `beam:"device"`
	Day                    string   `beam:"day"`
	Kind                   string   `beam:"kind"`
	Release                []byte   `beam:"release"`
	Notes                  string   `beam:"notes"`
	Clipping               string   `beam:"clipping"`
	Clipped                *float64 `beam:"clipped"`
	Clipped_at_least       *float64 `beam:"clipped_at_least"`
	Clipped_upper_estimate *float64 `beam:"clipped_upper_estimate"`
	Rho                    float64  `beam:"rho"`
	Epsilon                float64  `beam:"epsilon"`
	Delta                  float64  `beam:"delta"`
	Keys_delta             float64  `beam:"keys_delta"`
	Relation               string   `beam:"relation"`
	Protected              string   `beam:"protected"`
	Release_id             string   `beam:"release_id"`
	Statement              string   `beam:"statement"`
}

// Found is a row of QueryReleases.
type Found struct {
	Country                string   `beam:"country"`
	Device                 string   `beam:"device"`
	Day                    string   `beam:"day"`
	Item                   string   `beam:"item"`
	Estimate               float64  `beam:"estimate"`
	Lower                  float64  `beam:"lower"`
	Upper                  float64  `beam:"upper"`
	Notes                  string   `beam:"notes"`
	Clipping               string   `beam:"clipping"`
	Clipped                *float64 `beam:"clipped"`
	Clipped_at_least       *float64 `beam:"clipped_at_least"`
	Clipped_upper_estimate *float64 `beam:"clipped_upper_estimate"`
	Rho                    float64  `beam:"rho"`
	Epsilon                float64  `beam:"epsilon"`
	Delta                  float64  `beam:"delta"`
	Keys_delta             float64  `beam:"keys_delta"`
	Relation               string   `beam:"relation"`
	Protected              string   `beam:"protected"`
	Release_id             string   `beam:"release_id"`
}

// File is a row of WriteReleases.
type File struct {
	Path string `beam:"path"`
}

type none struct{}

func init() {
	for _, each := range []any{Visit{}, Frequencies{}, Query{}, Write{}, Release{}, Found{}, File{}, none{}} {
		beam.RegisterType(reflect.TypeOf(each))
	}
	beam.RegisterFunction(showFound)
	beam.RegisterFunction(showFile)
}

func showFound(row Found) {
	fmt.Printf("%s %s %s %s %.1f [%.1f, %.1f] at epsilon = %g\n",
		row.Day, row.Country, row.Device, row.Item, row.Estimate, row.Lower, row.Upper, row.Epsilon)
}

func showFile(row File) {
	fmt.Println("wrote", row.Path)
}

// call applies a transform of beam_dpsketch.rows; rows of the given type come out.
func call[Settings any](s beam.Scope, name string, settings Settings, in beam.PCollection, out any) beam.PCollection {
	external := python.NewExternalTransform[none, Settings]("beam_dpsketch.rows." + name)
	external.WithKwargs(settings)
	outputs := beam.CrossLanguage(s.Scope(name), urn, beam.CrossLanguagePayload(external), *service,
		beam.UnnamedInput(in), beam.UnnamedOutput(typex.New(reflect.TypeOf(out))))
	return outputs[beam.UnnamedOutputTag()]
}

// visits makes records up: on each of three days 2000 people visit four pages each.
func visits() []Visit {
	countries, devices, pages := []string{"NL", "NO"}, []string{"web", "app", "app"}, []string{"home", "news", "help"}
	var made []Visit
	for n := 0; n < 24000; n++ {
		at := fmt.Sprintf("2024-05-%02dT12:00:00Z", 1+n/8000)
		made = append(made, Visit{fmt.Sprint("p", n%2000), countries[n%2], devices[n%3], at, pages[n*n%7%3]})
	}
	return made
}

func main() {
	flag.Parse()
	beam.Init()
	if *output == "" {
		log.Fatal("--output: set how the names of the files begin, as out/days")
	}
	pipeline, s := beam.NewPipelineWithRoot()
	releases := call(s, "PrivateFrequencies", Frequencies{
		Item:   "page",
		Listed: `["home", "news", "help"]`,
		Keys: `{"public": [["NL", "web"], ["NL", "app"], ["NO", "app"]],
			"field": ["country", "device", {"time": "at", "bucket": "day", "start": "2024-05-01", "end": "2024-05-04"}]}`,
		Privacy: `{"epsilon": 2, "delta": 1e-6}`,
		Unit:    `{"privacy_id": "person", "records": {"max_records": 12, "max_keys": 6}}`,
	}, beam.CreateList(s, visits()), Release{})
	found := call(s, "QueryReleases", Query{`{"items": ["home", "news", "help"]}`}, releases, Found{})
	beam.ParDo0(s, showFound, found)
	beam.ParDo0(s, showFile, call(s, "WriteReleases", Write{*output}, releases, File{}))
	if err := beamx.Run(context.Background(), pipeline); err != nil {
		log.Fatal(err)
	}
}
