// The JSON of SDP4BIT_STATS; docs/statistics.md has its schema.
#include <unistd.h>

#include "plugin/json_writer.h"
#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/stats_snapshot.h"
#include "plugin/stats_text.h"
#include "plugin/topology.h"

namespace sdp4bit {
namespace {

constexpr std::uint64_t kSchema = 1;  // raised when a field changes its meaning or goes; new ones may come

const char* agreement_name(Agreement agreement) {
  return agreement == Agreement::on ? "on" : agreement == Agreement::off ? "off" : "pending";
}

const char* type_name(ElementType type) {
  return type == ElementType::bfloat16 ? "bf16" : type == ElementType::float16 ? "fp16" : "fp32";
}

void write_functions(JsonWriter& json, const CommCounts& counts) {
  for (const Collective collective : kCollectives) {
    const FunctionCounts& function = counts.of(collective);
    json.open_object(collective_name(collective));
    json.open_object("calls");
    for (std::size_t i = 0; i < kReasonCount; ++i)
      json.value(reason_name(static_cast<Reason>(i)), function.calls[i]);
    json.close_object();
    json.value("all_calls", function.all_calls());
    json.value("last", function.last_reason == Reason::count_ ? "none" : reason_name(function.last_reason));
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      const auto counter = static_cast<Counter>(i);
      if (counter == Counter::executed_calls && collective != Collective::reduce_scatter) continue;
      json.value(counter_name(counter), function.counters[i]);
    }
    json.close_object();
  }
}

void write_samples(JsonWriter& json, const CommCounts& counts) {
  json.open_object("sampled_error");
  for (unsigned kind = 0; kind < kSampleKinds; ++kind) {
    const SampledError& error = counts.samples[kind];
    json.open_object(sample_kind_name(static_cast<SampleKind>(kind)));
    json.value("samples", error.samples);
    json.value("last", error.last);
    json.value("mean", error.mean);
    if (!error.course.empty()) {
      json.value("samples_per_point", samples_per_point(error.samples));
      json.open_array("course");
      for (const double mean : error.course) json.value({}, mean);
      json.close_array();
    }
    json.close_object();
  }
  json.close_object();
}

void write_memory(JsonWriter& json, const CommCounts& counts) {
  json.open_object("memory");
  json.value("workspace_bytes", counts.workspace_bytes);
  json.value("ledger_bytes", counts.ledger_bytes());
  json.value("sample_bytes", counts.sample_bytes());
  json.value("record_bytes", counts.record_bytes);
  json.close_object();
}

void write_classes(JsonWriter& json, const CommCounts& counts) {
  json.open_array("classes");
  for (const ClassCounts& gathers : counts.classes) {
    json.open_object();
    json.value("count", static_cast<std::uint64_t>(gathers.count));
    json.value("type", type_name(gathers.type));
    json.value("stage", gathers.stage);
    json.value("last_event", gathers.last_event);
    json.value("own_shard", gathers.own_shard);
    json.value("slots", std::uint64_t{gathers.slots});
    json.value("calls", gathers.calls);
    json.value("differences", gathers.differences);
    json.value("jumps", gathers.jumps);
    json.value("refreshes", gathers.refreshes);
    json.value("relearned", gathers.relearned);
    json.value("resets", gathers.resets);
    json.value("ledger_bytes", gathers.ledger_bytes);
    json.value("sample_bytes", gathers.sample_bytes);
    json.close_object();
  }
  json.close_array();
}

void write_communicator(JsonWriter& json, const CommCounts& counts) {
  json.open_object();
  if (counts.merged > 0) {
    json.value("merged", counts.merged);
  } else {
    json.value("id", counts.identity.id);
    json.value("name", counts.identity.name);
    json.value("ranks", std::uint64_t{counts.identity.ranks});
    json.value("rank", std::uint64_t{counts.identity.rank});
    json.value("nodes", std::uint64_t{counts.identity.nodes});
    json.value("device", std::int64_t{counts.identity.device});
    json.value("agreement", agreement_name(counts.identity.agreement));
    json.value("why", counts.identity.why);
  }
  json.value("closed", counts.closed);
  write_functions(json, counts);
  write_samples(json, counts);
  write_memory(json, counts);
  write_classes(json, counts);
  json.close_object();
}

}  // namespace

std::string stats_json() {
  const Snapshot snapshot = take_snapshot();
  JsonWriter json;
  json.open_object();
  json.value("schema", kSchema);
  json.value("version", SDP4BIT_VERSION);
  json.value("process", std::uint64_t{static_cast<std::uint32_t>(::getpid())});
  json.value("job_rank", job_rank());
  json.value("job_ranks", job_size());
  json.value("host", host_name());
  json.value("started", counting_since());
  json.value("written", seconds_since_1970());
  write_functions(json, snapshot.total);
  write_samples(json, snapshot.total);
  write_memory(json, snapshot.total);
  json.open_object("logged");
  json.value("errors", logged_lines().errors);
  json.value("warnings", logged_lines().warnings);
  json.close_object();
  json.open_object("dropped");
  json.value("files_not_written", std::uint64_t{dropped_files()});
  json.close_object();
  json.open_array("options");
  for (const Option& option : option_table()) {
    json.open_object();
    json.value("name", option.name);
    json.value("value", option.print(config()));
    json.value("default", option.print(config()) == option.print(Config{}));
    json.close_object();
  }
  json.close_array();
  json.open_array("communicators");
  for (const CommCounts& counts : snapshot.communicators) write_communicator(json, counts);
  json.close_array();
  json.close_object();
  return std::move(json).text();
}

}  // namespace sdp4bit
