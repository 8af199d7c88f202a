// The index of public reports in tests/README.md is true: its tests exist, and tests' tags are its rows.
#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "source_tree.h"
#include "tests/support/catch.h"

using structure::SourceFile;

namespace {

struct Row {
  std::set<std::string> tests;
  std::string note;
};

std::vector<std::string> all_matches(const std::string& text, const std::regex& expression) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    found.push_back((*match)[1]);
  return found;
}

/// Rows by id; an id that stands twice is an error of its own.
std::map<std::string, Row> read_index() {
  std::map<std::string, Row> rows;
  const std::regex row(R"(\n\| ([A-K]\d+) \|[^|\n]*\|([^|\n]*)\|([^|\n]*)\|)");
  const std::regex quoted("`([^`]+)`");
  for (const SourceFile& page : structure::files_below("tests", {".md"})) {
    if (page.path != "tests/README.md") continue;
    for (std::sregex_iterator match(page.text.begin(), page.text.end(), row), end; match != end; ++match) {
      const std::vector<std::string> tests = all_matches((*match)[2], quoted);
      INFO((*match)[1]);
      CHECK(rows.insert({(*match)[1], {{tests.begin(), tests.end()}, (*match)[3]}}).second);
    }
  }
  return rows;
}

bool has_word(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("\\b" + word));
}

}  // namespace

TEST_CASE("BugIndex.EveryRowNamesATestOrSaysWhyNot") {
  const std::map<std::string, Row> rows = read_index();
  CHECK(rows.size() > 100);
  for (const auto& [id, row] : rows) {
    INFO(id);
    CHECK((!row.tests.empty() || row.note.starts_with(" does not apply") ||
           row.note.starts_with(" not covered")));
  }
}

TEST_CASE("BugIndex.NamesTestsThatExist") {
  std::set<std::string> cases;
  for (const SourceFile& file : structure::files_below("tests", structure::kCode)) {
    for (const std::string& name : all_matches(file.text, std::regex(R"re(TEST_CASE\(\s*"([^"]+)")re")))
      cases.insert(name);
  }
  std::string lists;
  for (const SourceFile& list : structure::files_below("tests", {"CMakeLists.txt"})) lists += list.text;
  std::string missing;
  for (const auto& [id, row] : read_index()) {
    for (const std::string& test : row.tests) {
      if (cases.count(test) > 0) continue;
      // CTest's own names; these folders' lists leave their prefix out.
      const bool in_ctest = test.find_first_of(". ") == std::string::npos;
      const bool has_prefix = test.starts_with("preload_") || test.starts_with("tools_");
      const std::string name = has_prefix ? test.substr(test.find('_') + 1) : test;
      if (!in_ctest || !has_word(lists, name)) missing += id + ": " + test + "\n";
    }
  }
  CHECK(missing == "");
}

TEST_CASE("BugIndex.TagsOfTestsAreItsRows") {
  const std::map<std::string, Row> rows = read_index();
  const std::regex tagged(R"re(TEST_CASE\(\s*"([^"]+)",\s*"((?:\[[^\]]*\])*)")re");
  const std::regex id(R"(\[([A-K]\d+)\])");
  std::string wrong;
  int tags = 0;
  for (const SourceFile& file : structure::files_below("tests", structure::kCode)) {
    for (std::sregex_iterator match(file.text.begin(), file.text.end(), tagged), end; match != end; ++match) {
      for (const std::string& tag : all_matches((*match)[2], id)) {
        ++tags;
        const auto row = rows.find(tag);
        if (row == rows.end() || row->second.tests.count((*match)[1]) == 0)
          wrong += (*match)[1].str() + ": " + tag + "\n";
      }
    }
  }
  CHECK(tags > 20);
  CHECK(wrong == "");
}
