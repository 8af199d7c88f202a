// Parts of the statistics that need no communicator: JSON's escapes, and the shards that NCCL would send.
#include <algorithm>

#include "catch.h"
#include "plugin/json_writer.h"
#include "plugin/native_traffic.h"

namespace sdp4bit {
namespace {

Topology topology_of(const std::vector<std::uint64_t>& node_of, std::uint32_t rank) {
  return make_topology(node_of, rank, 0);
}

TEST_CASE("Json.EveryTextIsOneThatParsersTake") {
  JsonWriter json;
  json.open_object();
  json.value("quote\"", std::string_view("a\\b\n\x01"));
  json.value("umlaut", "\xc3\xa4");
  json.value("broken", "\xc3(\xff");
  json.open_array("numbers");
  json.value({}, std::uint64_t{18446744073709551615u});
  json.value({}, std::int64_t{-1});
  json.value({}, 0.25);
  json.value({}, 0.0 / 0.0);
  json.value({}, true);
  json.close_array();
  json.open_object("empty");
  json.close_object();
  json.close_object();
  CHECK(std::move(json).text() ==
        "{\n  \"quote\\\"\": \"a\\\\b\\u000a\\u0001\",\n  \"umlaut\": \"\xc3\xa4\",\n  \"broken\": "
        "\"?(?\",\n  \"numbers\": [\n    18446744073709551615,\n    -1,\n    0.25,\n    null,\n    "
        "true\n  ],\n  \"empty\": {}\n}\n");
}

TEST_CASE("Json.KnowsWhatUtf8Is") {
  for (const char* good : {"", "a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) CHECK(is_utf8(good));
  // Cut short, a lone continuation, overlong forms, a surrogate, beyond the last character.
  for (const char* bad :
       {"\xc3", "\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x98"}) {
    CHECK(!is_utf8(bad));
  }
}

TEST_CASE("NativeTraffic.CrossesEachLinkAsOftenAsItMust") {
  const std::vector<std::vector<std::uint64_t>> shapes{{0, 0, 1, 1}, {0, 1, 2}, {0, 0, 0}, {0, 0, 0, 1, 1}};
  for (const std::vector<std::uint64_t>& shape : shapes) {
    const auto nodes = 1 + *std::max_element(shape.begin(), shape.end());
    for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
      std::uint64_t all = 0, between = 0;
      for (std::uint32_t rank = 0; rank < shape.size(); ++rank) {
        const NativeShards shards = native_shards(collective, topology_of(shape, rank));
        all += shards.in_node + shards.between_nodes;
        between += shards.between_nodes;
      }
      // Each shard reaches, or is summed from, every other rank once; and each other node once.
      CHECK(all == shape.size() * (shape.size() - 1));
      CHECK(between == shape.size() * (nodes - 1));
    }
  }
}

TEST_CASE("NativeTraffic.OfEqualNodesIsEqual") {
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    for (const Collective collective : {Collective::reduce_scatter, Collective::all_gather}) {
      const NativeShards shards = native_shards(collective, topology_of({0, 0, 1, 1, 2, 2}, rank));
      CHECK(shards.in_node == 3);        // nodes x (ranks of a node - 1)
      CHECK(shards.between_nodes == 2);  // nodes - 1
      CHECK(shards.of(10).between_nodes == 20);
    }
  }
}

}  // namespace
}  // namespace sdp4bit
