// A stream's queue and thread, and the order between the NULL stream and the blocking ones.
#include "stream.h"

#include <array>
#include <thread>
#include <utility>

#include "capture.h"

namespace sandbox::cudart {
namespace {

std::atomic<std::uint64_t> g_next_id{1};

/// The per-thread default streams of one thread; their queues drain after the thread is gone.
struct PerThreadStreams {
  std::array<StreamPtr, kMaxDevices> streams;
  PerThreadStreams() = default;
  PerThreadStreams(const PerThreadStreams&) = delete;
  PerThreadStreams& operator=(const PerThreadStreams&) = delete;
  ~PerThreadStreams() {
    for (const auto& stream : streams) {
      if (stream != nullptr) stream->close();
    }
  }
};

StreamPtr per_thread_stream(Device& device) {
  thread_local PerThreadStreams own;
  auto& stream = own.streams[static_cast<std::size_t>(device.index)];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>(device, Stream::Kind::blocking, 0U, 0);
    device.add_stream(stream);
  }
  return stream;
}

void add_unfinished(Completions& list, CompletionPtr point) {
  if (point != nullptr && !point->done()) list.push_back(std::move(point));
}

}  // namespace

Stream::Stream(Device& device_, Kind kind_, unsigned flags_, int priority_)
    : device(device_), kind(kind_), flags(flags_), priority(priority_), id(g_next_id.fetch_add(1)) {}

CompletionPtr Stream::submit(OperationPtr operation, Device& where, Completions after) {
  Item item{std::move(operation), &where, std::move(after), std::make_shared<Completion>()};
  CompletionPtr done = item.done;
  item.operation->add_dependencies(item.after);
  if (kind == Kind::legacy || kind == Kind::blocking) {
    // One lock for all of a device's ordered streams: both sides of every such order are seen by all alike.
    std::lock_guard lock(device.order);
    if (kind == Kind::blocking) {
      add_unfinished(item.after, device.legacy()->tail());
    } else {
      for (const auto& other : device.streams_locked()) {
        if (other->kind == Kind::blocking) add_unfinished(item.after, other->tail());
      }
    }
    push(std::move(item));
  } else {
    push(std::move(item));
  }
  return done;
}

void Stream::push(Item item) {
  item.operation->submitted(item.done);
  std::lock_guard lock(mutex_);
  tail_ = item.done;
  queue_.push_back(std::move(item));
  if (!running_) {
    running_ = true;
    std::thread(&Stream::work, shared_from_this()).detach();
  } else {
    changed_.notify_one();
  }
}

CompletionPtr Stream::tail() const {
  std::lock_guard lock(mutex_);
  return tail_;
}

CompletionPtr Stream::join() {
  if (kind != Kind::legacy) return tail();
  return submit(std::make_shared<EmptyOperation>());
}

void Stream::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_one();
}

void Stream::work(const std::shared_ptr<Stream>& self) {
  while (true) {
    Item item;
    {
      std::unique_lock lock(self->mutex_);
      self->changed_.wait(lock, [&] { return !self->queue_.empty() || self->closed_; });
      if (self->queue_.empty()) {
        self->running_ = false;
        return;
      }
      item = std::move(self->queue_.front());
      self->queue_.pop_front();
    }
    for (const auto& point : item.after) point->wait();
    if (item.operation->foreign()) {
      if (!process_is_exiting()) run(item);
    } else {
      const ActiveWork active;
      if (active.allowed()) run(item);
    }
    const CompletionPtr done = item.done;
    item = {};  // what the work held is released before anybody learns that it is done
    done->finish();
  }
}

void Stream::run(const Item& item) {
  if (const cudaError_t before = item.device->sticky(); before != cudaSuccess) {
    item.operation->skip(before);
    return;
  }
  cudaError_t result = cudaErrorUnknown;
  try {
    result = item.operation->execute(*item.device);
  } catch (const Failure& failure) {
    result = failure.code;
  } catch (const std::exception& error) {
    say("device %d: internal error: %s", item.device->index, error.what());
  }
  if (result != cudaSuccess) item.device->set_sticky(result);
}

HandleTable<Stream>& stream_table() {
  static auto& table = *new HandleTable<Stream>;
  return table;
}

StreamPtr create_stream(Device& device, unsigned flags, int priority) {
  const bool non_blocking = (flags & cudaStreamNonBlocking) != 0;
  auto stream = std::make_shared<Stream>(
      device, non_blocking ? Stream::Kind::non_blocking : Stream::Kind::blocking, flags, priority);
  device.add_stream(stream);
  stream_table().insert(stream);
  return stream;
}

StreamPtr resolve_stream(cudaStream_t handle, Device& current) {
  if (handle == nullptr || handle == cudaStreamLegacy) return current.legacy();
  if (handle == cudaStreamPerThread) return per_thread_stream(current);
  return stream_table().get(handle);
}

void enqueue(Stream& stream, OperationPtr operation) {
  stream.device.check();
  if (capture_operation(stream, operation)) return;
  stream.submit(std::move(operation));
}

CompletionPtr enqueue_now(Stream& stream, OperationPtr operation, Completions after) {
  stream.device.check();
  refuse_capture_of(stream);
  return stream.submit(std::move(operation), stream.device, std::move(after));
}

}  // namespace sandbox::cudart
