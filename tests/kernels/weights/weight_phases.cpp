// Weights' operations, kernel against reference; see weight_phases.h.
#include "weight_phases.h"

#include <algorithm>
#include <cstring>

#include "kernels/reference_weight.h"
#include "kernels/tuning.h"
#include "kernels/weight_header.h"

namespace sdp4bit::test {
namespace {

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  return {data, data + values.size() * sizeof(T)};
}

MessageHeader& header_at(std::byte* address) {
  return *reinterpret_cast<MessageHeader*>(address);
}

constexpr std::size_t kError = sizeof(std::uint32_t);

}  // namespace

WeightChunk WeightCase::chunk() const {
  return {.type = type,
          .codec = codec,
          .shard = offset + count + behind,
          .offset = offset,
          .count = count,
          .chunk = offset == 0 ? 0u : 1u,
          .class_number = 5,
          .class_call = 1234567890123,
          .slots = 3};
}

std::string compare_encode_and_seal(const WeightCase& test) {
  const WeightChunk chunk = test.chunk();
  const std::size_t bytes = chunk.shard * element_bytes(test.type);
  Both shard(make_elements(test.type, chunk.shard, test.content, test.seed), test.misalignment);
  Both entry(make_elements(test.type, chunk.shard, test.content, test.seed + 1));
  Both replica(Bytes(bytes, std::byte{0x55}), test.misalignment);
  Both message(message_bytes(test.count, 1, test.codec));
  Both maxima(group_count(test.count, test.codec) * sizeof(GroupMaxima));
  Both staged(staged_message_bytes(1, test.count, test.type));
  Both sums(bytes_of(std::vector<WeightSums>{{0.25, 100.0}}));
  const std::vector<std::uint64_t> draw{41};
  Both counter(bytes_of(draw));

  const auto encode = [&](auto pick) {
    return EncodeDifferenceArgs{
        .chunk = chunk,
        .shard = pick(shard),
        .entry = test.has_entry ? pick(entry) : nullptr,
        .message = pick(message),
        .maxima = reinterpret_cast<GroupMaxima*>(pick(maxima)),
        .replica = test.in_place ? pick(shard) : pick(replica),
        .staged = test.staged ? pick(staged) + staged_chunk_offset(1, 0, test.count, test.type) : nullptr,
        .key = {.seed = 3, .rank = 2, .communicator = 1},
        .draw = {.counter = reinterpret_cast<const std::uint64_t*>(pick(counter)), .offset = 1}};
  };
  const auto seal = [&](auto pick) {
    return SealDifferenceArgs{
        .chunk = chunk,
        .maxima = reinterpret_cast<const GroupMaxima*>(pick(maxima)),
        .sums = test.has_entry ? reinterpret_cast<WeightSums*>(pick(sums)) : nullptr,
        .slot = 2,
        .sender = 7,
        .flags = kReset,
        .draw = {.counter = reinterpret_cast<const std::uint64_t*>(pick(counter)), .offset = 1},
        .message = pick(message),
        .staged_header = test.staged ? pick(staged) : nullptr};
  };
  Both measured(group_count(test.count, test.codec) * sizeof(GroupMaxima));
  const auto measure = [&](auto pick) {
    return MeasureDifferenceArgs{.chunk = chunk,
                                 .shard = pick(shard),
                                 .entry = pick(entry),
                                 .maxima = reinterpret_cast<GroupMaxima*>(pick(measured))};
  };
  const auto on_device = [](Both& both) { return both.device(); };
  const auto on_host = [](Both& both) { return both.host(); };
  require_success(measure_difference(measure(on_device), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::measure_difference(measure(on_host));
  const EncodeDifference both{encode(on_device), seal(on_device)};
  const DeviceBytes finished(Bytes(kFinishedWords * sizeof(std::uint32_t), std::byte{0}));
  require_success(encode_difference_batch({&both, 1}, finished.as<std::uint32_t>(), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::encode_difference(encode(on_host));
  reference::seal_difference(seal(on_host));
  return shard.difference("shard") + entry.difference("entry") + replica.difference("replica") +
         measured.difference("measured") + message.difference("message") + maxima.difference("maxima") +
         sums.difference("sums") + (test.staged ? staged.difference("staged") : "");
}

std::string compare_add_and_scatter(const WeightCase& test, std::uint32_t senders, std::uint32_t skipped,
                                    std::size_t bad_byte) {
  const WeightChunk chunk = test.chunk();
  const std::size_t stride = message_bytes(test.count, 1, test.codec) + 32;  // not packed
  // Messages as senders make them: rank of message m is (m * 5 + 2) % 11, its place m reversed.
  std::vector<std::uint32_t> ranks, places;
  Bytes sent(senders * stride, std::byte{0});
  for (std::uint32_t m = 0; m < senders; ++m) {
    ranks.push_back((m * 5 + 2) % 11);
    places.push_back(senders - 1 - m);
    Bytes shard = make_elements(test.type, chunk.shard, test.content, test.seed + m);
    Bytes entry = make_elements(test.type, chunk.shard, test.content, test.seed + 100 + m);
    std::vector<GroupMaxima> maxima(group_count(test.count, test.codec));
    WeightSums sums{};
    reference::encode_difference({.chunk = chunk,
                                  .shard = shard.data(),
                                  .entry = entry.data(),
                                  .message = sent.data() + m * stride,
                                  .maxima = maxima.data()});
    reference::seal_difference({.chunk = chunk,
                                .maxima = maxima.data(),
                                .sums = &sums,
                                .slot = m % chunk.slots,
                                .sender = ranks[m],
                                .message = sent.data() + m * stride});
  }
  if (bad_byte < sizeof(MessageHeader)) sent[(senders - 1) * stride + bad_byte] ^= std::byte{0x40};

  Both messages(sent);
  Both device_ranks(bytes_of(ranks)), device_places(bytes_of(places));
  const std::size_t entry = entry_bytes(chunk.shard, test.type);
  Bytes ledger_content = make_elements(test.type, senders * chunk.slots * entry / element_bytes(test.type),
                                       test.content, test.seed + 200);
  Both ledger(ledger_content);
  Both receive(Bytes(11 * chunk.shard * element_bytes(test.type), std::byte{0x55}), test.misalignment);
  Both staging(Bytes(staged_message_bytes(senders, test.count, test.type), std::byte{0}));
  Both error(Bytes(kError, std::byte{0}));
  const auto add = [&](auto pick) {
    return AddDifferenceArgs{.chunk = chunk,
                             .messages = {pick(messages), stride},
                             .message_count = senders,
                             .skipped = skipped,
                             .senders = reinterpret_cast<const std::uint32_t*>(pick(device_ranks)),
                             .places = reinterpret_cast<const std::uint32_t*>(pick(device_places)),
                             .ledger = test.has_entry ? pick(ledger) : nullptr,
                             .receive = pick(receive),
                             .staging = test.staged ? pick(staging) : nullptr,
                             .staged_senders = senders,
                             .error = reinterpret_cast<std::uint32_t*>(pick(error))};
  };
  const auto on_device = [](Both& both) { return both.device(); };
  const auto on_host = [](Both& both) { return both.host(); };
  require_success(add_difference(add(on_device), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::add_difference(add(on_host));
  std::string difference = ledger.difference("ledger") + receive.difference("receive") +
                           staging.difference("staging") + error.difference("error");
  const bool should_fail = bad_byte < sizeof(MessageHeader) && skipped != senders - 1;
  if ((error.content()[0] == std::byte{1}) != should_fail) difference += "the header check is wrong; ";
  if (!test.staged || skipped < senders) return difference;

  // What arrives in the node is what was staged there, for other ranks.
  std::vector<std::uint32_t> arriving_ranks(senders);
  for (std::uint32_t m = 0; m < senders; ++m) arriving_ranks[places[m]] = ranks[m];
  Both table(bytes_of(arriving_ranks));
  Both scattered(Bytes(11 * chunk.shard * element_bytes(test.type), std::byte{0x55}), test.misalignment);
  Both scatter_error(Bytes(kError, std::byte{0}));
  const auto scatter = [&](auto pick) {
    return ScatterShardsArgs{
        .chunk = chunk,
        .messages = {pick(staging), staged_message_bytes(senders, test.count, test.type)},
        .message_count = 1,
        .senders_per_message = senders,
        .senders = reinterpret_cast<const std::uint32_t*>(pick(table)),
        .receive = pick(scattered),
        .error = reinterpret_cast<std::uint32_t*>(pick(scatter_error))};
  };
  require_success(scatter_shards(scatter(on_device), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::scatter_shards(scatter(on_host));
  difference += scattered.difference("scattered") + scatter_error.difference("scatter error");
  if (scattered.content() != receive.content()) difference += "the node's other ranks hold something else; ";
  if ((scatter_error.content()[0] == std::byte{1}) != should_fail)
    difference += "its header check is wrong; ";
  return difference;
}

std::string compare_sample_and_record(const WeightCase& test, bool known, float step) {
  WeightChunk shard = test.chunk();
  shard.offset = 0;
  shard.count = shard.shard;
  const std::size_t group = test.codec.group_size;
  const std::size_t groups = sample_group_count(shard.shard, group);
  Bytes now = make_elements(test.type, shard.shard, test.content, test.seed);
  Bytes before(sample_bytes(shard.shard, group, test.type), std::byte{0});
  for (std::size_t g = 0; g < groups; ++g) {
    for (std::size_t i = 0; i < group && g * kSampleStride * group + i < shard.shard; ++i) {
      const float value = reference::load_element(test.type, now.data(), g * kSampleStride * group + i);
      reference::store_element(test.type, before.data(), g * group + i, value * (1.0f - step));
    }
  }
  Both weights(now, test.misalignment);
  Both sample(before);
  Both maxima(known ? Bytes(groups * sizeof(GroupMaxima), std::byte{0})
                    : Bytes(groups * sizeof(GroupMaxima)));
  Both record(sizeof(MessageHeader));
  const auto compare = [&](auto pick) {
    return CompareSampleArgs{.type = test.type,
                             .group_size = group,
                             .shard_count = shard.shard,
                             .shard = pick(weights),
                             .sample = pick(sample),
                             .known = known,
                             .maxima = reinterpret_cast<GroupMaxima*>(pick(maxima))};
  };
  const auto write = [&](auto pick) {
    return WriteRecordArgs{.chunk = shard,
                           .maxima = known ? reinterpret_cast<const GroupMaxima*>(pick(maxima)) : nullptr,
                           .maxima_count = groups,
                           .flags = kSeen | kReady,
                           .slot = 1,
                           .slot_count = 9,
                           .sender = 6,
                           .record = pick(record)};
  };
  const auto on_device = [](Both& both) { return both.device(); };
  const auto on_host = [](Both& both) { return both.host(); };
  require_success(compare_sample(compare(on_device), nullptr));
  require_success(write_record(write(on_device), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::compare_sample(compare(on_host));
  reference::write_record(write(on_host));
  return sample.difference("sample") + maxima.difference("maxima") + record.difference("record") +
         weights.difference("shard");
}

std::string compare_set_entries(const WeightCase& test, std::uint32_t ranks, std::uint32_t not_ready,
                                std::size_t bad_byte) {
  WeightChunk shard = test.chunk();
  shard.offset = 0;
  shard.count = shard.shard;
  std::vector<MessageHeader> headers;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const std::uint32_t flags = (rank == not_ready ? 0u : kReady) | (rank % 3 ? kSeen : kSmall);
    headers.push_back(weight_header(MessageKind::weight_record, shard, rank, rank % shard.slots, flags));
    headers.back().slot_count = rank * 7 % 5;
  }
  Bytes content = bytes_of(headers);
  if (bad_byte < sizeof(MessageHeader))
    content[(ranks - 1) * sizeof(MessageHeader) + bad_byte] ^= std::byte{0x40};
  std::vector<std::uint32_t> senders;
  for (std::uint32_t rank = 1; rank < ranks; rank += 2) senders.push_back(rank);
  Both records(content), table(bytes_of(senders));
  Both receive(make_elements(test.type, ranks * shard.shard, test.content, test.seed), test.misalignment);
  Both ledger(Bytes(senders.size() * shard.slots * entry_bytes(shard.shard, test.type), std::byte{0x55}));
  Both ready(sizeof(std::uint32_t));
  Both words(Bytes(sizeof(CallWords), std::byte{0}));
  Both error(Bytes(kError, std::byte{0}));
  const auto set = [&](auto pick) {
    return SetEntriesArgs{.chunk = shard,
                          .records = pick(records),
                          .ranks = ranks,
                          .all_ready = reinterpret_cast<std::uint32_t*>(pick(ready)),
                          .senders = reinterpret_cast<const std::uint32_t*>(pick(table)),
                          .sender_count = static_cast<std::uint32_t>(senders.size()),
                          .receive = pick(receive),
                          .ledger = test.has_entry ? pick(ledger) : nullptr,
                          .words = reinterpret_cast<CallWords*>(pick(words)),
                          .error = reinterpret_cast<std::uint32_t*>(pick(error))};
  };
  require_success(set_entries(set([](Both& both) { return both.device(); }), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::set_entries(set([](Both& both) { return both.host(); }));
  std::string difference = ledger.difference("ledger") + ready.difference("all ready") +
                           words.difference("words") + error.difference("error");
  const bool changed = ledger.content()[0] != std::byte{0x55} || ledger.content().back() != std::byte{0x55} ||
                       ledger.content() != Bytes(ledger.content().size(), std::byte{0x55});
  const bool should =
      test.has_entry && not_ready >= ranks && bad_byte >= sizeof(MessageHeader) && !senders.empty();
  if (changed != should) difference += "entries were set when they must not be, or not set; ";
  return difference;
}

std::string compare_probe(const WeightCase& test, const ProbeProgram& program) {
  const Bytes before = make_elements(test.type, test.count, test.content, test.seed);
  Both shard(before, test.misalignment);
  Bytes held = before;  // not far from the shard: behind a jump there is no step
  for (std::size_t i = 0; i < test.count; ++i) {
    const float factor = program.jumps ? 0.5f : 0.9f;
    reference::store_element(test.type, held.data(), i,
                             factor * reference::load_element(test.type, held.data(), i));
  }
  Both entry(held, test.misalignment);
  Both probe(Bytes(sizeof(Probe), std::byte{0}));
  ProbeArgs args{.type = test.type, .shard_count = test.count, .seed = test.seed};
  const auto both = [&](auto launch, auto define) {
    const auto with = [&](auto pick) {
      ProbeArgs placed = args;
      placed.shard = pick(shard);
      placed.entry = pick(entry);
      placed.probe = reinterpret_cast<Probe*>(pick(probe));
      return placed;
    };
    require_success(launch(with([](Both& one) { return one.device(); })));
    require_success(cudaDeviceSynchronize());
    define(with([](Both& one) { return one.host(); }));
    return shard.difference("shard") + entry.difference("entry") + probe.difference("probe");
  };
  const auto answer = [&] {
    return both([](const ProbeArgs& a) { return answer_probe(a, nullptr); }, reference::answer_probe);
  };
  const auto apply = [&] {
    return both([](const ProbeArgs& a) { return apply_probe(a, nullptr); }, reference::apply_probe);
  };

  args.start = true;
  std::string difference = answer() + apply();
  const Bytes stepped = shard.content();
  Bytes moved(stepped.size());
  for (std::size_t i = 0; i < test.count; ++i) {
    const float from = reference::load_element(test.type, before.data(), i);
    const float to = reference::load_element(test.type, stepped.data(), i);
    const float movement = program.movement * from * (i % 3 == 0 ? 1.0f : -0.5f);
    reference::store_element(test.type, moved.data(), i, from + program.kept * (to - from) + movement);
  }
  // All bits set: a NaN that no conversion makes.
  const std::size_t nan_bytes = program.has_nan ? element_bytes(test.type) : 0;
  std::fill_n(moved.begin(), nan_bytes, std::byte{0xff});
  require_success(cudaMemcpy(shard.device(), moved.data(), moved.size(), cudaMemcpyHostToDevice));
  std::copy(moved.begin(), moved.end(), shard.host());
  args.answer = true;
  args.start = program.starts_again && !program.has_nan;
  args.moved = program.moved;
  difference += answer();
  if (!program.has_nan) difference += apply();
  const Bytes left = shard.content();
  if (std::any_of(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(nan_bytes),
                  [](std::byte byte) { return byte != std::byte{0xff}; }))
    difference += "a NaN of the program's has other bits";
  return difference;
}

std::string compare_publish(std::uint32_t rows, std::uint32_t columns, unsigned seed) {
  const std::size_t row_stride = columns * sizeof(MessageHeader) + 160;
  Bytes first(rows * row_stride, std::byte{0}), second(sizeof(MessageHeader), std::byte{0});
  std::mt19937 random(seed);
  const auto fill = [&](std::byte* address) {
    header_at(address) = weight_header(MessageKind::weight_difference, {}, 0, 0,
                                       static_cast<std::uint32_t>(random()) | kSmall);
    header_at(address).slot_count = static_cast<std::uint32_t>(random() % 100);
  };
  for (std::uint32_t row = 0; row < rows; ++row) {
    for (std::uint32_t column = 0; column < columns; ++column) {
      fill(first.data() + row * row_stride + column * sizeof(MessageHeader));
    }
  }
  fill(second.data());
  Both table(first), one(second);
  Both words(Bytes(sizeof(CallWords), std::byte{0}));
  const auto publish = [&](auto pick) {
    PublishArgs args{.tables = {}, .class_call = 99, .words = reinterpret_cast<CallWords*>(pick(words))};
    args.tables[0] = {.data = pick(table), .row_stride = row_stride, .rows = rows, .columns = columns};
    args.tables[1] = {.data = pick(one), .rows = 1};
    return args;
  };
  // Said by the last block of a kernel that has something else to do.
  WeightCase test{.count = 3 * kTile};
  const WeightChunk chunk = test.chunk();
  const DeviceBytes staged(Bytes(staged_message_bytes(1, test.count, test.type), std::byte{0})),
      receive(Bytes(chunk.shard * element_bytes(test.type), std::byte{0})),
      senders(std::vector<std::uint32_t>{0}), error(Bytes(kError, std::byte{0})),
      finished(Bytes(kFinishedWords * sizeof(std::uint32_t), std::byte{0}));
  const ScatterShards call{{.chunk = chunk,
                            .messages = {staged.data(), 0},
                            .message_count = 1,
                            .senders_per_message = 1,
                            .senders = senders.as<std::uint32_t>(),
                            .receive = receive.data(),
                            .error = error.as<std::uint32_t>()},
                           publish([](Both& both) { return both.device(); })};
  require_success(scatter_shards_batch({&call, 1}, finished.as<std::uint32_t>(), nullptr));
  require_success(cudaDeviceSynchronize());
  reference::publish_words(publish([](Both& both) { return both.host(); }));
  return words.difference("words");
}

}  // namespace sdp4bit::test
