// kernels: what each of the library's kernels costs, row by row.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>

#include "machine.h"

using namespace sdp4bit::bench;

namespace {

std::vector<Case> chosen_cases(const Options& options) {
  std::vector<Case> cases = all_cases();
  std::erase_if(cases, [&](const Case& row) {
    return !options.filters.empty() &&
           std::none_of(options.filters.begin(), options.filters.end(),
                        [&](const std::string& part) { return row.name.find(part) != std::string::npos; });
  });
  if (cases.empty()) throw std::invalid_argument("no row has such a name; --list shows all");
  return cases;
}

struct Row {
  std::string name;
  std::vector<Figure> figures;
};

/// Rows take seconds: a terminal sees which one runs.
void show_progress(std::size_t done, std::size_t all, const std::string& name) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%zu/%zu %s", done, all, name.c_str());
  if (done == all) std::fputs("\r\033[K", stderr);
}

void print_table(const Machine& machine, const std::vector<Row>& rows) {
  std::printf("machine: %s\n", machine.name().c_str());
  for (const auto& [name, value] : machine.facts()) std::printf("%s: %s\n", name.c_str(), value.c_str());
  std::printf("\n%-70s", "row");
  for (const auto& [name, value] : rows.front().figures)
    std::printf("  %*s", static_cast<int>(std::max<std::size_t>(name.size(), 8)), name.c_str());
  std::puts("");
  for (const Row& row : rows) {
    std::printf("%-70s", row.name.c_str());
    for (const auto& [name, value] : row.figures)
      std::printf("  %*.2f", static_cast<int>(std::max<std::size_t>(name.size(), 8)), value);
    std::puts("");
  }
}

void print_json(const Machine& machine, std::size_t count, const std::vector<Row>& rows) {
  std::printf("{\"machine\": \"%s\", \"count\": %zu", machine.name().c_str(), count);
  for (const auto& [name, value] : machine.facts())
    std::printf(", \"%s\": \"%s\"", name.c_str(), value.c_str());
  std::printf(", \"rows\": [");
  const char* separator = "";
  for (const Row& row : rows) {
    std::printf("%s\n  {\"row\": \"%s\"", separator, row.name.c_str());
    for (const auto& [name, value] : row.figures) std::printf(", \"%s\": %.6g", name.c_str(), value);
    std::printf("}");
    separator = ",";
  }
  std::puts("\n]}");
}

int run(const Options& options) {
  const std::vector<Case> cases = chosen_cases(options);
  if (options.list) {
    for (const Case& row : cases) std::puts(row.name.c_str());
    return 0;
  }
  Machine machine(options);
  const std::size_t count = options.count != 0 ? options.count : Machine::default_count();
  std::vector<Row> rows;
  for (const Case& row : cases) {
    show_progress(rows.size(), cases.size(), row.name);
    const std::unique_ptr<PreparedCase> prepared = row.prepare(count);
    rows.push_back({row.name, machine.measure(row, *prepared)});
  }
  show_progress(cases.size(), cases.size(), "");
  if (options.json) {
    print_json(machine, count, rows);
  } else {
    print_table(machine, rows);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::fputs(kUsage, stdout);
      return 0;
    }
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels: %s\n", error.what());
    return 1;
  }
}
