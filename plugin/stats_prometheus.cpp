// The text of SDP4BIT_METRICS, in Prometheus' format.
#include <cinttypes>
#include <cstdio>

#include "plugin/json_writer.h"
#include "plugin/stats_snapshot.h"
#include "plugin/stats_text.h"
#include "plugin/topology.h"

namespace sdp4bit {
namespace {

std::string label_value(const std::string& text) {
  std::string escaped = "\"";
  for (const char character : as_utf8(text)) {
    if (character == '\\' || character == '"') escaped += '\\';
    if (character == '\n') {
      escaped += "\\n";
    } else {
      escaped += character;
    }
  }
  return escaped + '"';
}

std::string label(const char* name, const std::string& text) {
  return std::string(name) + "=" + label_value(text);
}

/// The labels that all series of a communicator have.
std::string comm_labels(const CommCounts& counts) {
  const CommStats::Identity& identity = counts.identity;
  return label("communicator", counts.merged > 0 ? "merged" : std::to_string(identity.id)) + "," +
         label("name", identity.name) + "," + label("rank", std::to_string(identity.rank)) + "," +
         label("ranks", std::to_string(identity.ranks));
}

class Metrics {
 public:
  /// A metric's series follow one another, behind its two lines of description.
  void begin(const std::string& name, const char* help, const char* type) {
    name_ = "sdp4bit_" + name;
    text_ += "# HELP " + name_ + " " + help + ".\n# TYPE " + name_ + " " + type + "\n";
  }
  void add(const std::string& labels, std::uint64_t number) { line(labels, std::to_string(number)); }
  void add(const std::string& labels, double number) {
    char text[40];
    (void)std::snprintf(text, sizeof text, "%.9g", number);
    line(labels, text);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  void line(const std::string& labels, const std::string& number) {
    text_ += name_ + "{" + labels + "} " + number + "\n";
  }
  std::string name_, text_;
};

void add_calls(Metrics& metrics, const Snapshot& snapshot) {
  metrics.begin("calls_total", "Calls, by function and by what became of them", "counter");
  for (const CommCounts& counts : snapshot.communicators) {
    for (const Collective collective : kCollectives) {
      const std::string labels =
          comm_labels(counts) + "," + label("collective", collective_name(collective)) + ",";
      for (std::size_t i = 0; i < kReasonCount; ++i) {
        metrics.add(labels + label("reason", reason_name(static_cast<Reason>(i))),
                    counts.of(collective).calls[i]);
      }
    }
  }
}

void add_counters(Metrics& metrics, const Snapshot& snapshot) {
  for (std::size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    metrics.begin(std::string(counter_name(counter)) + "_total", counter_help(counter), "counter");
    for (const CommCounts& counts : snapshot.communicators) {
      for (const Collective collective : kCollectives) {
        if (counter == Counter::executed_calls && collective != Collective::reduce_scatter) continue;
        metrics.add(comm_labels(counts) + "," + label("collective", collective_name(collective)),
                    counts.of(collective).counters[i]);
      }
    }
  }
}

void add_memory(Metrics& metrics, const Snapshot& snapshot) {
  metrics.begin("memory_bytes", "Memory that the library holds", "gauge");
  for (const CommCounts& counts : snapshot.communicators) {
    const std::string labels = comm_labels(counts) + ",";
    metrics.add(labels + label("kind", "workspace"), counts.workspace_bytes);
    metrics.add(labels + label("kind", "ledger"), counts.ledger_bytes());
    metrics.add(labels + label("kind", "sample"), counts.sample_bytes());
    metrics.add(labels + label("kind", "record"), counts.record_bytes);
  }
}

void add_samples(Metrics& metrics, const Snapshot& snapshot) {
  metrics.begin("samples_total", "Messages whose error was sampled", "counter");
  for (const CommCounts& counts : snapshot.communicators) {
    for (unsigned kind = 0; kind < kSampleKinds; ++kind) {
      metrics.add(
          comm_labels(counts) + "," + label("message", sample_kind_name(static_cast<SampleKind>(kind))),
          counts.samples[kind].samples);
    }
  }
  metrics.begin("sampled_relative_error", "Relative L2 error of the last sampled message", "gauge");
  for (const CommCounts& counts : snapshot.communicators) {
    for (unsigned kind = 0; kind < kSampleKinds; ++kind) {
      if (counts.samples[kind].samples == 0) continue;
      metrics.add(
          comm_labels(counts) + "," + label("message", sample_kind_name(static_cast<SampleKind>(kind))),
          counts.samples[kind].last);
    }
  }
}

void add_classes(Metrics& metrics, const Snapshot& snapshot) {
  struct Series {
    const char* name;
    const char* help;
    std::uint64_t ClassCounts::*field;
  };
  constexpr Series kSeries[] = {
      {"class_jumps_total", "Native rounds that followed a large difference", &ClassCounts::jumps},
      {"class_refreshes_total", "Native rounds because it was time", &ClassCounts::refreshes},
      {"class_relearned_total", "Returns to learning", &ClassCounts::relearned},
      {"class_differences_total", "AllGathers that travelled as differences", &ClassCounts::differences}};
  const auto labels_of = [](const CommCounts& counts, std::size_t number) {
    return comm_labels(counts) + "," + label("class", std::to_string(number)) + "," +
           label("count", std::to_string(counts.classes[number].count));
  };
  for (const Series& series : kSeries) {
    metrics.begin(series.name, series.help, "counter");
    for (const CommCounts& counts : snapshot.communicators) {
      for (std::size_t number = 0; number < counts.classes.size(); ++number)
        metrics.add(labels_of(counts, number), counts.classes[number].*series.field);
    }
  }
  metrics.begin("class_stage", "1 for the stage of a class of weight gathers", "gauge");
  for (const CommCounts& counts : snapshot.communicators) {
    for (std::size_t number = 0; number < counts.classes.size(); ++number) {
      metrics.add(labels_of(counts, number) + "," + label("stage", counts.classes[number].stage),
                  std::uint64_t{1});
    }
  }
}

}  // namespace

std::string stats_prometheus() {
  const Snapshot snapshot = take_snapshot();
  Metrics metrics;
  metrics.begin("info", "1; the labels say who this is", "gauge");
  metrics.add(label("version", SDP4BIT_VERSION) + "," + label("job_rank", std::to_string(job_rank())),
              std::uint64_t{1});
  add_calls(metrics, snapshot);
  add_counters(metrics, snapshot);
  add_memory(metrics, snapshot);
  add_samples(metrics, snapshot);
  add_classes(metrics, snapshot);
  metrics.begin("files_not_written_total", "Files of statistics that could not be written", "counter");
  metrics.add("", std::uint64_t{dropped_files()});
  return std::move(metrics).text();
}

}  // namespace sdp4bit
