// Every call that the library makes of CUDA, NCCL and malloc: it fails once, or a rank dies, stops or exits
// there. The job then finishes right or ends with an error on the ranks that are left, in bounded time, and
// never with a wrong result.
#include <cstdio>
#include <iterator>
#include <set>
#include <string_view>

#include "catch.h"
#include "disturbed_run.h"

namespace sdp4bit::faults {
namespace {

struct Kind {
  Action action;
  const char* name;
};
constexpr Kind kKinds[] = {
    {Action::fail, "fail"}, {Action::kill, "kill"}, {Action::stop, "stop"}, {Action::leave, "exit"}};

/// At the first call of a site, the last, or one between.
std::uint32_t moment(std::uint32_t calls, unsigned choice) {
  return choice % 3 == 0 ? 1 : choice % 3 == 1 ? calls : 1 + calls / 2;
}

void disturb(const MetSite& met, const Kind& kind, std::uint32_t number, Outcomes& outcomes) {
  CAPTURE(kind.name, injector().function_name(met.site.function), met.site.offset, number, met.setting->name,
          met.rank);
  auto ends = run(*met.setting, met.rank, [&] { injector().arm(kind.action, met.site.offset, number, 0); });
  ends[met.rank].may_keep = std::string_view(injector().function_name(met.site.function)) == "cudaFree" &&
                            kind.action == Action::fail;
  CHECK(outcomes.add(kind.name, met.rank, ends) == "");
}

void fail_malloc(const Setting& setting, std::uint32_t number, Outcomes& outcomes) {
  CAPTURE(setting.name, number);
  const auto ends = run(setting, 1, [&] { injector().fail_malloc(number); });
  CHECK(outcomes.add("malloc", 1, ends) == "");
}

TEST_CASE("Faults.SampledCallsOfTheLibrary") {
  const std::vector<MetSite> met = meet_sites(settings(), true);
  REQUIRE(met.size() > 60);
  Outcomes outcomes;
  unsigned chosen = 0;
  for (std::size_t i = 3; i < met.size(); i += met.size() / 8) {
    const std::uint32_t number = moment(met[i].site.calls, chosen);
    disturb(met[i], kKinds[chosen++ % std::size(kKinds)], number, outcomes);
  }
  for (const std::uint32_t number : {5u, 60u, 200u}) fail_malloc(settings()[0], number, outcomes);
  CHECK(outcomes.injected() >= 9);
  outcomes.print("sampled", settings().size());
}

TEST_CASE("Faults.EveryCallOfTheLibrary", "[.slow]") {
  std::vector<std::uint64_t> mallocs;
  const std::vector<MetSite> met = meet_sites(settings(), true, &mallocs);
  Outcomes outcomes;
  unsigned choice = 0;
  for (std::size_t i = 0; i < met.size(); ++i) {
    std::fprintf(stderr, "faults: call site %zu of %zu (%s), %d injected\n", i + 1, met.size(),
                 injector().function_name(met[i].site.function), outcomes.injected());
    std::set<std::uint32_t> numbers{1, met[i].site.calls};
    for (const std::uint32_t number : numbers) disturb(met[i], kKinds[0], number, outcomes);
    // The other kinds take turns over the sites; all three everywhere would say the same three times.
    disturb(met[i], kKinds[1 + choice % 3], moment(met[i].site.calls, choice / 3), outcomes);
    ++choice;
  }
  for (std::size_t s = 0; s < settings().size(); ++s) {
    const auto most = static_cast<std::uint32_t>(mallocs[s]);
    for (std::uint32_t number = 1; number <= most; number += number < 400 ? 7 : most / 20 + 1)
      fail_malloc(settings()[s], number, outcomes);
  }
  CHECK(outcomes.injected() > 300);
  outcomes.print("everywhere", settings().size());
}

}  // namespace
}  // namespace sdp4bit::faults
