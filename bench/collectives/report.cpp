// Prints measurements: nccl-tests' columns with bytes on the wire and errors, or CSV, or one JSON object a
// line.
#include "report.h"

#include <cmath>
#include <cstdio>
#include <string>

namespace collectives {
namespace {

std::string number(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string number_or(const char* format, const std::optional<double>& value, const char* otherwise) {
  return value ? number(format, *value) : otherwise;
}

// JSON has no infinity.
std::string json_number(const char* format, const std::optional<double>& value) {
  return value && std::isfinite(*value) ? number(format, *value) : "null";
}

std::string yes_or_no(const std::optional<bool>& value, const char* yes, const char* no,
                      const char* unknown) {
  return value ? (*value ? yes : no) : unknown;
}

std::string name_of_operation(const Measurement& measurement) {
  return name_of(measurement.which.reduction);
}

// NCCL's code, as ncclGetVersion gives it: 22809 is 2.28.9.
std::string nccl_version() {
  int code = 0;
  if (ncclGetVersion(&code) != ncclSuccess) return "unknown";
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." +
         std::to_string(code % 100);
}

void print_table_row(const Measurement& m) {
  std::printf(
      "%-14s %12zu %12zu %8s %7s %5s %10s %7s %7s %12s %12s %7s %10s %10s %5s\n", name_of(m.which.collective),
      m.bytes, m.count, std::string(m.which.type.name).c_str(), name_of_operation(m).c_str(), "-1",
      number("%.1f", m.seconds * 1e6).c_str(), number("%.3f", m.algorithm_bandwidth * 1e-9).c_str(),
      number("%.3f", m.bus_bandwidth * 1e-9).c_str(), number_or("%.0f", m.bytes_in_node, "-").c_str(),
      number_or("%.0f", m.bytes_between_nodes, "-").c_str(),
      number_or("%.3f", m.bits_between_nodes, "-").c_str(), number_or("%.2e", m.relative_error, "-").c_str(),
      number_or("%.2e", m.maximum_error, "-").c_str(), yes_or_no(m.ranks_agree, "yes", "NO", "-").c_str());
}

void print_csv_row(const Measurement& m) {
  std::printf(
      "%s,%zu,%zu,%s,%s,%d,%.3f,%.6f,%.6f,%s,%s,%s,%s,%s,%s\n", name_of(m.which.collective), m.bytes, m.count,
      std::string(m.which.type.name).c_str(), name_of_operation(m).c_str(), m.which.in_place, m.seconds * 1e6,
      m.algorithm_bandwidth * 1e-9, m.bus_bandwidth * 1e-9, number_or("%.1f", m.bytes_in_node, "").c_str(),
      number_or("%.1f", m.bytes_between_nodes, "").c_str(),
      number_or("%.4f", m.bits_between_nodes, "").c_str(), number_or("%.6e", m.relative_error, "").c_str(),
      number_or("%.6e", m.maximum_error, "").c_str(), yes_or_no(m.ranks_agree, "1", "0", "").c_str());
}

void print_json_row(const Measurement& m) {
  std::printf(
      "{\"collective\": \"%s\", \"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": \"%s\", "
      "\"in_place\": %s, \"time_us\": %.3f, \"algbw_gbps\": %.6f, \"busbw_gbps\": %.6f, "
      "\"bytes_in_node\": %s, \"bytes_between_nodes\": %s, \"bits_between_nodes\": %s, "
      "\"relative_error\": %s, \"maximum_error\": %s, \"ranks_agree\": %s}\n",
      name_of(m.which.collective), m.bytes, m.count, std::string(m.which.type.name).c_str(),
      name_of_operation(m).c_str(), m.which.in_place ? "true" : "false", m.seconds * 1e6,
      m.algorithm_bandwidth * 1e-9, m.bus_bandwidth * 1e-9, json_number("%.1f", m.bytes_in_node).c_str(),
      json_number("%.1f", m.bytes_between_nodes).c_str(), json_number("%.4f", m.bits_between_nodes).c_str(),
      json_number("%.6e", m.relative_error).c_str(), json_number("%.6e", m.maximum_error).c_str(),
      yes_or_no(m.ranks_agree, "true", "false", "null").c_str());
}

void print_table_header(const Options& options, int ranks, int nodes) {
  std::printf("# collectives: %d ranks on %d node%s, NCCL %s, %d calls after %d, seed %llu\n", ranks, nodes,
              nodes == 1 ? "" : "s", nccl_version().c_str(), options.iterations, options.warmup,
              static_cast<unsigned long long>(options.seed));
  std::printf(
      "# wire: bytes that a rank sends in a call, and bits between nodes per element of count and other "
      "node\n");
  std::printf(
      "# error: against the exact result; relative = root of (sum of squares / sum of squares); same: all "
      "ranks"
      " hold the same bits\n");
  std::printf("%-14s %12s %12s %8s %7s %5s %10s %7s %7s %12s %12s %7s %10s %10s %5s\n", "#", "size", "count",
              "type", "redop", "root", "time", "algbw", "busbw", "in node", "between", "between", "relative",
              "maximum", "same");
  std::printf("%-14s %12s %12s %8s %7s %5s %10s %7s %7s %12s %12s %7s %10s %10s %5s\n", "#", "(B)",
              "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "(B)", "(B)", "(bits)", "error", "error",
              "");
}

}  // namespace

void print_header(const Options& options, int ranks, int nodes) {
  if (options.format == Format::kTable) print_table_header(options, ranks, nodes);
  if (options.format == Format::kCsv) {
    std::puts(
        "collective,size,count,type,redop,in_place,time_us,algbw_gbps,busbw_gbps,bytes_in_node,"
        "bytes_between_nodes,bits_between_nodes,relative_error,maximum_error,ranks_agree");
  }
  std::fflush(stdout);
}

void print_row(const Measurement& measurement, Format format) {
  switch (format) {
    case Format::kTable:
      print_table_row(measurement);
      break;
    case Format::kCsv:
      print_csv_row(measurement);
      break;
    case Format::kJson:
      print_json_row(measurement);
      break;
  }
  std::fflush(stdout);
}

}  // namespace collectives
