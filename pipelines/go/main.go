// The most visited pages, with differential privacy: Python's transforms in a Go pipeline.
//
// dpsketch expansion-service --port 8097
// go run . --runner=prism --output=$HOME/pages
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

// Visit is a record: who visited which page.
type Visit struct {
	Person string `beam:"person"`
	Page   string `beam:"page"`
}

// TopK holds the settings of PrivateTopK. A block of settings is text in JSON.
type TopK struct {
	Item    string `beam:"item"`
	Domain  string `beam:"domain"`
	K       int64  `beam:"k"`
	Privacy string `beam:"privacy"`
	Unit    string `beam:"privacy_unit"`
	Ask     string `beam:"ask"`
}

// Query holds the settings of QueryReleases.
type Query struct {
	Ask    string `beam:"ask"`
	Domain string `beam:"domain"`
}

// Write holds the settings of WriteReleases.
type Write struct {
	Path string `beam:"path"`
}

// Release is a row of PrivateTopK. Fields are named as in Python, with a capital first letter. Shares that are not known are nil.
type Release struct {
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
	Place                  int64    `beam:"place"`
	Item                   string   `beam:"item"`
	Estimate               float64  `beam:"estimate"`
	Lower                  float64  `beam:"lower"`
	Upper                  float64  `beam:"upper"`
	Truncated              bool     `beam:"truncated"`
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
	for _, each := range []any{Visit{}, TopK{}, Query{}, Write{}, Release{}, Found{}, File{}, none{}} {
		beam.RegisterType(reflect.TypeOf(each))
	}
	beam.RegisterFunction(showFound)
	beam.RegisterFunction(showFile)
}

func showFound(row Found) {
	fmt.Printf("%d %s %.1f [%.1f, %.1f] at epsilon = %g\n",
		row.Place, row.Item, row.Estimate, row.Lower, row.Upper, row.Epsilon)
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

// visits makes records up: 400 people visit six pages each.
func visits() []Visit {
	var made []Visit
	for n := 0; n < 2400; n++ {
		made = append(made, Visit{fmt.Sprint("p", n%400), fmt.Sprint("page", (n*n)%7)})
	}
	return made
}

func main() {
	flag.Parse()
	beam.Init()
	if *output == "" {
		log.Fatal("--output: say how the names of the files begin, as out/pages")
	}
	pipeline, s := beam.NewPipelineWithRoot()
	domain := `{"type": "text", "max_bytes": 8}`
	releases := call(s, "PrivateTopK", TopK{
		Item:    "page",
		Domain:  domain,
		K:       3,
		Privacy: `{"epsilon": 2, "delta": 1e-6}`,
		Unit:    `{"privacy_id": "person", "norm": {"max_norm": 6}}`,
		Ask:     "releases",
	}, beam.CreateList(s, visits()), Release{})
	found := call(s, "QueryReleases", Query{Ask: `{"top_k": 3}`, Domain: domain}, releases, Found{})
	beam.ParDo0(s, showFound, found)
	beam.ParDo0(s, showFile, call(s, "WriteReleases", Write{*output}, releases, File{}))
	if err := beamx.Run(context.Background(), pipeline); err != nil {
		log.Fatal(err)
	}
}
