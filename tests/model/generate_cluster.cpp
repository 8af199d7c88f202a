// Clusters from one process to eight ranks, and options of which most give something to compress.
#include "generate_cluster.h"

#include <array>
#include <string>
#include <utility>

namespace sdp4bit::model {
namespace {

class Cluster {
 public:
  Cluster(Chance& chance, Program& program) : chance_(chance), program_(program) {}

  void draw() {
    program_.threads = chance(60);
    draw_processes();
    draw_variables();
  }

 private:
  int below(int bound) { return chance_.below(bound); }
  bool chance(int percent) { return chance_.chance(percent); }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return chance_.pick(choices);
  }

  void draw_processes() {
    std::vector<Process>& processes = program_.processes;
    switch (below(10)) {
      case 0:
      case 1:
      case 2:  // one process, nodes by SDP4BIT_LOCAL_SIZE
        processes = {{0, 2 + below(5)}};
        local_size_ = 1 + below(2);
        if (chance(15)) local_size_ = 0;
        break;
      case 3:  // unequal nodes
        processes = {{0, 1}, {1, 2 + below(2)}};
        break;
      case 4:  // two processes on each node, or ranks of nodes out of order
        processes = {{0, 1}, {chance(50) ? 0 : 1, 1}, {1, 1}, {chance(50) ? 0 : 1, 1}};
        break;
      case 5:
        processes = {{0, 1}, {1, 1}, {2, 1}};
        break;
      case 6:
        processes = {{0, 3}, {1, 3}};
        break;
      case 7:
        if (chance(30)) {
          processes = {{0, 4}, {1, 4}};
          break;
        }
        [[fallthrough]];
      default:
        processes = {{0, 2}, {1, 2}};
    }
  }

  void set(const char* name, const std::string& value, int process = -1) {
    program_.variables.push_back({process, std::string("SDP4BIT_") + name, value});
  }
  void maybe(int percent, const char* name, std::initializer_list<const char*> values) {
    if (chance(percent)) set(name, pick(values));
  }

  void draw_variables() {
    set("COMMS", chance(75)
                     ? "all"
                     : pick({"auto", "auto", "spans-nodes", "ranks>=3", "name:dp*", "name:*data*,name:dp",
                             "all,!name:tensor*", "auto,!name:*cp", "spans-nodes,ranks>=3"}));
    set("MIN_BYTES", chance(90) ? "0" : "4K");
    if (local_size_ != 0) set("LOCAL_SIZE", std::to_string(local_size_));
    // A small workspace holds only small groups.
    const bool small = chance(25);
    set("WORKSPACE", small ? "32K" : "1M");
    if (small) {
      set("GRAD_GROUP", pick({"32", "64", "128"}));
      set("WEIGHT_GROUP", pick({"32", "128"}));
    } else {
      maybe(50, "GRAD_GROUP", {"32", "64", "256", "1024"});
      maybe(50, "WEIGHT_GROUP", {"32", "128", "512"});
    }
    set("WEIGHT_LEDGER", chance(55) ? "full" : chance(93) ? "node" : "off");
    set("OWN_SHARD", pick({"auto", "auto", "replica", "exact"}));
    maybe(30, "PRESET", {"paper", "paper", "default"});
    maybe(35, "CODEC_INTER", {"int4-sr", "int4-rn", "int8-sr", "int8-rn", "dither4", "dither8"});
    maybe(35, "CODEC_INTRA", {"int4-sr", "int4-rn", "int8-sr", "int8-rn", "dither4", "dither8", "dither8"});
    maybe(20, "HADAMARD", {"0"});
    maybe(35, "SCALE", {"bf16", "fp32"});
    maybe(30, "CODEC_WEIGHT", {"int4", "int8", "compand4"});
    maybe(12, "WEIGHT_VOTE", {"1"});
    maybe(35, "WEIGHT_REFRESH", {"0", "1", "2", "5"});
    maybe(10, "WEIGHT_DIRECT", {"8", "4"});
    maybe(70, "WEIGHT_TYPES", {"bf16,fp16,fp32", "bf16,fp16,fp32", "bf16,fp16,fp32", "fp16,fp32"});
    maybe(6, "GRAD_TYPES", {"bf16", "fp16,fp32"});
    maybe(6, "COLLECTIVES", {"reduce_scatter", "all_gather"});
    maybe(8, "START_CALL", {"2", "6"});
    maybe(10, "SEED", {"7"});
    maybe(3, "ENABLE", {"0"});
    maybe(8, "CHECK", {"1"});
    if (chance_.aside().chance(15)) set("CHECKSUM", "1");  // changes no result and no size
    if (chance(15)) draw_launcher();
    if (program_.processes.size() > 1 && chance(5)) {
      const std::array<std::pair<const char*, const char*>, 7> odd{{{"SEED", "8"},
                                                                    {"ENABLE", "0"},
                                                                    {"MIN_BYTES", "64"},
                                                                    {"HADAMARD", "0"},
                                                                    {"WEIGHT_REFRESH", "9"},
                                                                    {"PRESET", "paper"},
                                                                    {"CODEC_INTRA", "int8-sr"}}};
      const auto& [name, value] = odd[static_cast<std::size_t>(below(static_cast<int>(odd.size())))];
      set(name, value, some_process());
    }
    if (chance(10)) set("LOG", "info", some_process());
  }

  /// A launcher says how large the job is; now and then it is wrong, or says it to one process.
  void draw_launcher() {
    const int ranks = program_.ranks();
    program_.variables.push_back(
        {chance(80) ? -1 : some_process(),
         pick({"WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}),
         std::to_string(chance(75) ? ranks : pick({1, 2 * ranks}))});
  }

  int some_process() { return below(static_cast<int>(program_.processes.size())); }

  Chance& chance_;
  Program& program_;
  int local_size_ = 0;
};

}  // namespace

void draw_cluster(Chance& chance, Program& program) {
  Cluster(chance, program).draw();
}

}  // namespace sdp4bit::model
