// A stream: a queue of work with a thread of its own, ordered with other streams as CUDA orders them.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "device.h"
#include "handle_table.h"
#include "operation.h"

namespace sandbox::cudart {

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// legacy: the NULL stream, ordered with all blocking ones. internal: a lane of a graph, ordered with none.
  enum class Kind : std::uint8_t { legacy, blocking, non_blocking, internal };

  Stream(Device& device, Kind kind, unsigned flags, int priority);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() = default;

  Device& device;
  const Kind kind;
  const unsigned flags;
  const int priority;
  const std::uint64_t id;
  cudaStream_t handle() { return reinterpret_cast<cudaStream_t>(this); }

  /// Appends work that runs when everything before it in this stream, in the streams this one is ordered
  /// with, and in `after` is done. Never blocks on work.
  CompletionPtr submit(OperationPtr operation, Device& where, Completions after = {});
  CompletionPtr submit(OperationPtr operation) { return submit(std::move(operation), device); }
  /// The last point of this stream; nullptr when nothing was ever submitted.
  CompletionPtr tail() const;
  /// The point that stands for all work submitted so far, of ordered streams too; nullptr when there is none.
  CompletionPtr join();
  /// No more work will come: the thread ends when the queue is empty.
  void close();

 private:
  struct Item {
    OperationPtr operation;
    Device* device = nullptr;
    Completions after;
    CompletionPtr done;
  };
  void push(Item item);
  static void work(const std::shared_ptr<Stream>& self);
  static void run(const Item& item);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  CompletionPtr tail_;
  bool running_ = false;
  bool closed_ = false;
};

HandleTable<Stream>& stream_table();
StreamPtr create_stream(Device& device, unsigned flags, int priority);
/// Resolves a handle; NULL, legacy and per-thread name streams of `current`.
StreamPtr resolve_stream(cudaStream_t handle, Device& current);

/// Puts work on a stream, or into the graph that the stream is capturing.
void enqueue(Stream& stream, OperationPtr operation);
/// The same for work that must run now: under capture it is an error.
CompletionPtr enqueue_now(Stream& stream, OperationPtr operation, Completions after = {});

inline constexpr int kLeastPriority = 0;
inline constexpr int kGreatestPriority = -5;

}  // namespace sandbox::cudart
