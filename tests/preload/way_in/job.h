// An ordinary NCCL job of one process, and what sdp4bit saw of it.
#pragma once

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nccl.h>
#include <sdp4bit/sdp4bit.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace way_in {

constexpr int kDevices = 2;
constexpr int kRounds = 6;  // of which the first three are native
constexpr std::size_t kCount = 1024;

/// What NCCL has chosen; some releases forget it with the last communicator.
inline const char* network = "unknown";
inline void note_network() {
  // Looked up: a program need not be linked to NCCL itself.
  void* const nccl = dlopen("libnccl.so.2", RTLD_NOLOAD | RTLD_LAZY);
  const auto ask = nccl ? reinterpret_cast<const char* (*)()>(dlsym(nccl, "sandboxNcclNetwork")) : nullptr;
  static std::string name;
  if (ask == nullptr) return;
  name = ask();
  network = name.c_str();
}

/// Sums over the devices, round by round, with some messages between. Returns what went wrong, or nullptr.
inline const char* run_job() {
  std::vector<ncclComm_t> comms(kDevices);
  std::vector<float*> memory(kDevices);
  std::vector<float> input(kDevices * kCount, 1.0f), output(kCount);
  if (ncclCommInitAll(comms.data(), kDevices, nullptr) != ncclSuccess) return "ncclCommInitAll";
  for (int i = 0; i < kDevices; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (cudaSetDevice(i) != cudaSuccess) return "cudaSetDevice";
    if (cudaMalloc(reinterpret_cast<void**>(&memory[at]), (kDevices + 1) * kCount * 4) != cudaSuccess) {
      return "cudaMalloc";
    }
    if (cudaMemcpy(memory[at], input.data(), kDevices * kCount * 4, cudaMemcpyHostToDevice) != cudaSuccess) {
      return "cudaMemcpy";
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    if (ncclGroupStart() != ncclSuccess) return "ncclGroupStart";
    for (std::size_t i = 0; i < kDevices; ++i) {
      if (ncclReduceScatter(memory[i], memory[i] + kDevices * kCount, kCount, ncclFloat32, ncclSum, comms[i],
                            nullptr) != ncclSuccess) {
        return "ncclReduceScatter";
      }
    }
    if (ncclGroupEnd() != ncclSuccess) return "ncclGroupEnd";
    if (ncclGroupStart() != ncclSuccess) return "ncclGroupStart of messages";
    for (std::size_t i = 0; i < kDevices; ++i) {
      const int peer = static_cast<int>(1 - i);
      if (ncclSend(memory[i], 8, ncclFloat32, peer, comms[i], nullptr) != ncclSuccess) return "ncclSend";
      if (ncclRecv(memory[i], 8, ncclFloat32, peer, comms[i], nullptr) != ncclSuccess) return "ncclRecv";
    }
    if (ncclGroupEnd() != ncclSuccess) return "ncclGroupEnd of messages";
    for (std::size_t i = 0; i < kDevices; ++i) {
      if (cudaSetDevice(static_cast<int>(i)) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess ||
          cudaMemcpy(output.data(), memory[i] + kDevices * kCount, kCount * 4, cudaMemcpyDeviceToHost) !=
              cudaSuccess) {
        return "reading the sums";
      }
      for (const float value : output) {
        if (!(std::fabs(value - kDevices) < 0.5f)) return "a sum is wrong";
      }
    }
  }
  note_network();
  for (std::size_t i = 0; i < kDevices; ++i) {
    if (ncclCommDestroy(comms[i]) != ncclSuccess) return "ncclCommDestroy";
    if (cudaFree(memory[i]) != cudaSuccess) return "cudaFree";
  }
  return nullptr;
}

/// One line for scripts: what the library counted, if it is in the process, and which network NCCL took.
inline int report(const char* failure) {
  if (failure != nullptr) {
    std::printf("failed: %s\n", failure);
    return 1;
  }
  std::uint64_t all = 0, compressed = 0;
  if (void* const library = dlopen("libsdp4bit.so.0", RTLD_NOLOAD | RTLD_LAZY)) {
    const auto calls = reinterpret_cast<sdp4bitGetCallsFunction>(dlsym(library, "sdp4bitGetCalls"));
    if (calls == nullptr || calls("reduce_scatter", &all, &compressed) != 0) return 1;
  }
  std::printf("calls %llu compressed %llu network %s\n", static_cast<unsigned long long>(all),
              static_cast<unsigned long long>(compressed), network);
  return 0;
}

}  // namespace way_in
