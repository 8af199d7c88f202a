// What a failed checksum says: the rank that sent it, on every shape of the cluster, the message and the
// call.
#include <vector>

#include "catch.h"
#include "plugin/checksum_failure.h"
#include "plugin/weight_layout.h"

namespace sdp4bit {
namespace {

std::string text(Exchange exchange, std::uint32_t part, const Topology& topology,
                 std::uint32_t weight_class = 0) {
  const ChecksumFailure failure{.found = 1,
                                .exchange = static_cast<std::uint32_t>(exchange),
                                .part = part,
                                .chunk = 2,
                                .call = 40,
                                .class_number = weight_class,
                                .padding = 0};
  return describe(failure, topology);
}

bool begins(const std::string& text, const std::string& part) {
  return text.compare(0, part.size(), part) == 0;
}

TEST_CASE("ChecksumFailure.AFailureNamesTheSenderTheMessageAndTheCall") {
  const std::vector<std::uint64_t> hosts{7, 8, 7, 8, 7, 8};  // nodes take turns
  const Topology topology = make_topology(hosts, 2, 0);      // node 0: ranks 0, 2, 4; this is the second
  CHECK(
      begins(text(Exchange::gradient_first, 1, topology),
             "gradients (first exchange) of rank 4 in ReduceScatter 41, chunk 3: what arrived does not fit"));
  CHECK(begins(text(Exchange::gradient_second, 0, topology),
               "gradients (between nodes) of rank 3 in ReduceScatter 41, chunk 3"));
  CHECK(begins(text(Exchange::difference_column, 0, topology, 1),
               "weights of rank 3 in AllGather 41 of class 2, chunk 3"));
  CHECK(begins(text(Exchange::difference_column, 0, topology, kDirectClass),
               "weights of rank 3 in direct AllGather 41, chunk 3"));
  CHECK(begins(text(Exchange::difference_all, 5, topology), "weights of rank 5 in AllGather 41 of class 1"));
  CHECK(begins(text(Exchange::weights_in_node, 1, topology), "weights passed on in the node of rank 4"));
  // Local peers 0 and 4, each with the two ranks of its column.
  CHECK(begins(text(Exchange::weights_passed_on, 3, topology),
               "weights, which reached another rank of this node damaged, of rank 5"));
  CHECK(begins(text(Exchange::weight_record, 4, topology), "the record of a native gather of rank 4"));
  CHECK(begins(text(Exchange::weight_vote, 1, topology), "a vote of SDP4BIT_WEIGHT_VOTE=1 of rank 1"));
  CHECK(begins(text(Exchange::gathered_shard, 3, topology), "weights that NCCL gathered of rank 3"));
  CHECK(begins(text(Exchange::gradient_health, 0, topology), "the health of gradients of rank 0 in look 41"));
}

TEST_CASE("ChecksumFailure.OnOneLevelTheFirstExchangeIsWithAllRanks") {
  const Topology topology = make_topology(std::vector<std::uint64_t>{7, 7, 8}, 1, 0);
  CHECK(begins(text(Exchange::gradient_first, 1, topology), "gradients (first exchange) of rank 2"));
}

}  // namespace
}  // namespace sdp4bit
