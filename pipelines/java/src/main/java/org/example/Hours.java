package org.example;

import java.util.ArrayList;
import java.util.List;
import org.apache.beam.fn.harness.ExternalWorkerService;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.coders.RowCoder;
import org.apache.beam.sdk.extensions.python.PythonExternalTransform;
import org.apache.beam.sdk.fn.server.GrpcFnServer;
import org.apache.beam.sdk.options.Default;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.options.PortablePipelineOptions;
import org.apache.beam.sdk.options.Validation;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.windowing.FixedWindows;
import org.apache.beam.sdk.transforms.windowing.Window;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;
import org.apache.beam.sdk.values.TimestampedValue;
import org.joda.time.Duration;
import org.joda.time.Instant;

/**
 * The pages visited in each hour, country and device, with differential privacy: Python's transforms in a Java pipeline.
 *
 * <pre>
 * dpsketch expansion-service --port 8097
 * mvn package -Dbuild=$HOME/hours
 * java -cp "$HOME/hours/hours-1.jar:$HOME/hours/jars/*" org.example.Hours \
 *     --runner=PortableRunner --jobEndpoint=localhost:8073 --output=$HOME/hours/out
 * </pre>
 */
public class Hours {
  /** What the program is told. */
  public interface Options extends PortablePipelineOptions {
    @Default.String("localhost:8097")
    String getExpansionService();

    void setExpansionService(String address);

    @Validation.Required
    String getOutput();

    void setOutput(String path);
  }

  static final Schema VISIT =
      Schema.builder().addStringField("person").addStringField("country").addStringField("device").addStringField("page")
          .build();
  static final String KEYS =
      "{\"public\": [[\"NL\", \"web\"], [\"NL\", \"app\"], [\"NO\", \"app\"]], \"field\": [\"country\", \"device\"]}";
  static final Instant START = Instant.parse("2024-05-01T00:00:00Z");

  static class Show extends DoFn<Row, Void> {
    @ProcessElement
    public void process(@Element Row row) {
      if (row.getSchema().hasField("path")) {
        System.out.println("wrote " + row.getString("path"));
        return;
      }
      java.time.Instant opens = java.time.Instant.parse(row.getString("window_start"));
      java.time.Instant closes = java.time.Instant.parse(row.getString("window_end"));
      System.out.printf("%s to %s %s %s %s %.1f [%.1f, %.1f] at epsilon = %s%n", opens, closes, row.getString("country"),
          row.getString("device"), row.getString("item"), row.getDouble("estimate"), row.getDouble("lower"), row.getDouble("upper"),
          row.getDouble("epsilon"));
    }
  }

  /** Records that are made up: in each of three hours 200 people visit four pages each. */
  static List<TimestampedValue<Row>> visits() {
    String[] countries = {"NL", "NO"};
    String[] devices = {"web", "app", "app"};
    String[] pages = {"home", "news", "help"};
    List<TimestampedValue<Row>> made = new ArrayList<>();
    for (int n = 0; n < 2400; n++) {
      String device = devices[n % 3];
      Row row =
          Row.withSchema(VISIT).addValues("p" + n % 200, countries[n % 2], device, pages[n * n % 7 % 3]).build();
      made.add(TimestampedValue.of(row, START.plus(Duration.millis(4500L * n))));
    }
    return made;
  }

  /** A transform of beam_dpsketch.rows, without settings yet. */
  static PythonExternalTransform<PCollection<Row>, PCollection<Row>> transform(String name, Options options) {
    return PythonExternalTransform.from("beam_dpsketch.rows." + name, options.getExpansionService());
  }

  public static void main(String[] args) throws Exception {
    Options options = PipelineOptionsFactory.fromArgs(args).withValidation().as(Options.class);
    // LOOPBACK has no address while transforms are expanded, so this process serves its own worker.
    GrpcFnServer<ExternalWorkerService> worker = new ExternalWorkerService(options).start();
    options.setDefaultEnvironmentType("EXTERNAL");
    options.setDefaultEnvironmentConfig(worker.getApiServiceDescriptor().getUrl());

    Pipeline pipeline = Pipeline.create(options);
    PCollection<Row> visits = pipeline
        .apply(Create.timestamped(visits()).withCoder(RowCoder.of(VISIT)))
        .setRowSchema(VISIT)
        .apply(Window.into(FixedWindows.of(Duration.standardHours(1))));
    PCollection<Row> releases = visits.apply("Count", transform("PrivateFrequencies", options)
        .withKwarg("item", "page")
        .withKwarg("listed_items", "[\"home\", \"news\", \"help\"]")
        .withKwarg("keys", KEYS)
        .withKwarg("windows", "{\"start\": \"2024-05-01T00:00:00Z\", \"end\": \"2024-05-01T03:00:00Z\"}")
        .withKwarg("privacy", "{\"epsilon\": 2, \"delta\": 1e-6}")
        .withKwarg("privacy_unit", "{\"privacy_id\": \"person\", \"records\": {\"max_records\": 4, \"max_keys\": 2}}"));
    releases
        .apply("Ask", transform("QueryReleases", options)
            .withKwarg("ask", "{\"items\": [\"home\", \"news\", \"help\"]}"))
        .apply("ShowAnswers", ParDo.of(new Show()));
    releases
        .apply("Write", transform("WriteReleases", options).withKwarg("path", options.getOutput()))
        .apply("ShowFiles", ParDo.of(new Show()));
    pipeline.run().waitUntilFinish();
    worker.close();
    System.exit(0);
  }
}
