// The weight kernels as plain loops; see reference_weight.h.
#include "kernels/reference_weight.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernels/codec.h"
#include "kernels/element.h"
#include "kernels/random.h"
#include "kernels/record_header.h"
#include "kernels/reference_codec.h"
#include "kernels/weight_header.h"

namespace sdp4bit::reference {
namespace {

/// The ledger's elements from `first` on, as senders and holders read them.
std::vector<float> read_entry(const std::byte* entry, const WeightChunk& chunk) {
  std::vector<float> values(padded_count(chunk.count), 0.0f);
  if (entry == nullptr) return values;
  for (std::size_t i = 0; i < chunk.count; ++i) {
    values[i] = finite_or_zero(load_element(chunk.type, entry, chunk.offset + i));
  }
  return values;
}

/// What is coded in place of a difference; the maxima of its group are of such numbers.
float coded_difference(float difference, Coding coding) {
  return coding == Coding::companded ? compandable(difference) : difference;
}

/// What is rounded to the buffer's type in the end. Companded codes are added to bfloat16 with one rounding.
float sum(float before, float decoded, const WeightChunk& chunk) {
  const bool once = chunk.codec.coding == Coding::companded && chunk.type == ElementType::bfloat16;
  return once ? add_to_odd(before, decoded) : before + decoded;
}

std::size_t staged_elements(const WeightChunk& chunk) {
  return staged_chunk_bytes(chunk.count, chunk.type) / element_bytes(chunk.type);
}

/// Without a change of any bit.
void copy_elements(ElementType type, void* to, std::size_t to_index, const void* from, std::size_t from_index,
                   std::size_t count) {
  const std::size_t bytes = element_bytes(type);
  std::memcpy(static_cast<std::byte*>(to) + to_index * bytes,
              static_cast<const std::byte*>(from) + from_index * bytes, count * bytes);
}

MessageHeader read_header(const std::byte* address) {
  MessageHeader header;
  std::memcpy(&header, address, sizeof header);
  return header;
}

std::uint64_t draw_number(const Draw& draw) {
  return draw.counter ? *draw.counter + draw.offset : 0;
}

WeightSums sum_maxima(const GroupMaxima* maxima, std::size_t count) {
  std::array<WeightSums, kSumThreads> partial{};
  for (std::size_t i = 0; i < count; ++i) {
    partial[i % kSumThreads].difference += static_cast<double>(float_from_bits(maxima[i].difference));
    partial[i % kSumThreads].weight += static_cast<double>(float_from_bits(maxima[i].weight));
  }
  for (std::size_t half = kSumThreads / 2; half != 0; half /= 2) {
    for (std::size_t t = 0; t < half; ++t) {
      partial[t].difference += partial[t + half].difference;
      partial[t].weight += partial[t + half].weight;
    }
  }
  return partial[0];
}

struct Agreed {
  std::uint32_t all_flags = ~0u, any_flags = 0, max_slots = 0;

  void add(const MessageHeader& header) {
    all_flags &= header.flags;
    any_flags |= header.flags;
    max_slots = std::max(max_slots, header.slot_count);
  }
  void publish(CallWords* words, std::uint64_t class_call) const {
    words->all_flags = all_flags;
    words->any_flags = any_flags;
    words->max_slots = max_slots;
    words->number = class_call + 1;
  }
};

}  // namespace

void encode_difference(const EncodeDifferenceArgs& args) {
  const WeightChunk& chunk = args.chunk;
  const std::vector<float> before = read_entry(static_cast<const std::byte*>(args.entry), chunk);
  std::vector<float> difference(before.size(), 0.0f);
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const float weight = load_element(chunk.type, args.shard, chunk.offset + i);
    difference[i] = coded_difference(canonical(weight - before[i]), chunk.codec.coding);
    GroupMaxima& maxima = args.maxima[i / chunk.codec.group_size];
    if (i % chunk.codec.group_size == 0) maxima = {0, 0};
    maxima.difference = std::max(maxima.difference, magnitude_bits(difference[i]));
    maxima.weight = std::max(maxima.weight, magnitude_bits(coded_difference(weight, chunk.codec.coding)));
  }
  std::byte* segment = args.message + sizeof(MessageHeader);
  encode_segment(segment, difference, chunk.count, chunk.codec,
                 {.key = noise_key(args.key.seed, args.key.rank, args.key.communicator),
                  .draw = draw_number(args.draw),
                  .kind = MessageKind::weight_difference,
                  .segment = 0,
                  .element = chunk.offset});
  const std::vector<float> decoded = decode_segment(segment, chunk.count, chunk.codec);
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const float after = sum(before[i], decoded[i], chunk);
    if (args.entry) store_element(chunk.type, args.entry, chunk.offset + i, after);
    if (args.replica) store_element(chunk.type, args.replica, chunk.offset + i, after);
  }
  // Its padding travels too.
  for (std::size_t i = 0; args.staged && i < staged_elements(chunk); ++i) {
    store_element(chunk.type, args.staged, i, sum(before[i], decoded[i], chunk));
  }
}

void measure_difference(const MeasureDifferenceArgs& args) {
  const WeightChunk& chunk = args.chunk;
  const std::vector<float> before = read_entry(static_cast<const std::byte*>(args.entry), chunk);
  for (std::size_t i = 0; i < chunk.count; ++i) {
    const float weight = load_element(chunk.type, args.shard, chunk.offset + i);
    GroupMaxima& maxima = args.maxima[i / chunk.codec.group_size];
    if (i % chunk.codec.group_size == 0) maxima = {0, 0};
    maxima.difference = std::max(maxima.difference, magnitude_bits(canonical(weight - before[i])));
    maxima.weight = std::max(maxima.weight, magnitude_bits(weight));
  }
}

void seal_difference(const SealDifferenceArgs& args) {
  const WeightChunk& chunk = args.chunk;
  std::uint32_t flags = 0;
  if (args.sums) {
    const WeightSums sums = sum_maxima(args.maxima, group_count(chunk.count, chunk.codec));
    args.sums->difference += sums.difference;
    args.sums->weight += sums.weight;
    if (chunk.offset + chunk.count == chunk.shard) {
      flags = size_flags(args.sums->difference, args.sums->weight) | args.flags |
              (args.own_flags ? *args.own_flags : 0u);
    }
  }
  MessageHeader header = weight_header(MessageKind::weight_difference, chunk, args.sender, args.slot, flags);
  header.draw = draw_number(args.draw);
  std::memcpy(args.message, &header, sizeof header);
  if (args.staged_header) std::memcpy(args.staged_header, &header, sizeof header);
}

void add_difference(const AddDifferenceArgs& args) {
  const WeightChunk& chunk = args.chunk;
  for (std::uint32_t m = 0; m < args.message_count; ++m) {
    if (m == args.skipped) continue;
    const std::byte* message = args.messages.data + m * args.messages.stride;
    const MessageHeader header = read_header(message);
    const bool valid = weight_header_is_valid(header, MessageKind::weight_difference, chunk, args.senders[m]);
    if (!valid) *args.error = 1;
    if (args.staging) std::memcpy(args.staging + args.places[m] * sizeof header, &header, sizeof header);

    std::byte* entry = nullptr;
    if (valid && args.ledger) {
      const std::size_t number = std::size_t{args.places[m]} * chunk.slots + header.slot;
      entry = args.ledger + number * entry_bytes(chunk.shard, chunk.type);
    }
    std::byte* staged = args.staging ? args.staging + staged_chunk_offset(args.staged_senders, args.places[m],
                                                                          chunk.count, chunk.type)
                                     : nullptr;
    const std::vector<float> before = read_entry(entry, chunk);
    const std::vector<float> decoded = decode_segment(message + sizeof header, chunk.count, chunk.codec);
    for (std::size_t i = 0; i < staged_elements(chunk); ++i) {
      const float after = valid ? sum(before[i], decoded[i], chunk) : float_from_bits(kNanBits);
      if (staged) store_element(chunk.type, staged, i, after);
      if (i >= chunk.count) continue;
      if (entry) store_element(chunk.type, entry, chunk.offset + i, after);
      store_element(chunk.type, args.receive, args.senders[m] * chunk.shard + chunk.offset + i, after);
    }
  }
}

void scatter_shards(const ScatterShardsArgs& args) {
  const WeightChunk& chunk = args.chunk;
  for (std::uint32_t m = 0; m < args.message_count; ++m) {
    const std::byte* message = args.messages.data + m * args.messages.stride;
    for (std::uint32_t s = 0; s < args.senders_per_message; ++s) {
      const std::uint32_t sender = args.senders[m * args.senders_per_message + s];
      const bool valid = weight_header_is_valid(read_header(message + s * sizeof(MessageHeader)),
                                                MessageKind::weight_difference, chunk, sender);
      const std::size_t to = sender * chunk.shard + chunk.offset;
      if (valid) {
        const std::byte* staged =
            message + staged_chunk_offset(args.senders_per_message, s, chunk.count, chunk.type);
        copy_elements(chunk.type, args.receive, to, staged, 0, chunk.count);
        continue;
      }
      *args.error = 1;
      for (std::size_t i = 0; i < chunk.count; ++i) {
        store_element(chunk.type, args.receive, to + i, float_from_bits(kNanBits));
      }
    }
  }
}

void publish_words(const PublishArgs& args) {
  Agreed agreed;
  for (const HeaderTable& table : args.tables) {
    for (std::size_t row = 0; row < table.rows; ++row) {
      for (std::size_t column = 0; column < table.columns; ++column) {
        agreed.add(read_header(table.data + row * table.row_stride + column * table.column_stride));
      }
    }
  }
  agreed.publish(args.words, args.class_call);
}

void compare_sample(const CompareSampleArgs& args) {
  for (std::size_t group = 0; group < sample_group_count(args.shard_count, args.group_size); ++group) {
    const std::size_t first = group * kSampleStride * args.group_size;
    const std::size_t in_sample = group * args.group_size;
    const std::size_t size = std::min(args.group_size, args.shard_count - first);
    GroupMaxima maxima{0, 0};
    for (std::size_t i = 0; args.known && i < size; ++i) {
      const float weight = load_element(args.type, args.shard, first + i);
      const float difference = canonical(weight - load_element(args.type, args.sample, in_sample + i));
      maxima.weight = std::max(maxima.weight, magnitude_bits(weight));
      maxima.difference = std::max(maxima.difference, magnitude_bits(difference));
    }
    if (args.known) args.maxima[group] = maxima;
    copy_elements(args.type, args.sample, in_sample, args.shard, first, size);
  }
}

void write_record(const WriteRecordArgs& args) {
  const WeightSums sums = sum_maxima(args.maxima, args.maxima ? args.maxima_count : 0);
  const std::uint32_t size = args.maxima ? size_flags(sums.difference, sums.weight) : 0u;
  MessageHeader record =
      weight_header(MessageKind::weight_record, args.chunk, args.sender, args.slot, args.flags | size);
  record.slot_count = args.slot_count;
  std::memcpy(args.record, &record, sizeof record);
}

void set_entries(const SetEntriesArgs& args) {
  Agreed agreed;
  for (std::uint32_t rank = 0; rank < args.ranks; ++rank) {
    MessageHeader record = read_header(args.records + rank * sizeof(MessageHeader));
    if (!weight_record_is_valid(record, args.chunk, rank)) {
      record.flags = record.slot_count = 0;
      *args.error = 1;
    }
    agreed.add(record);
  }
  agreed.publish(args.words, args.chunk.class_call);
  const bool ready = agreed.all_flags & kReady;
  *args.all_ready = ready ? 1 : 0;
  if (!ready || !args.ledger) return;

  const WeightChunk& chunk = args.chunk;
  for (std::uint32_t place = 0; place < args.sender_count; ++place) {
    const std::uint32_t sender = args.senders[place];
    const std::uint32_t slot = read_header(args.records + sender * sizeof(MessageHeader)).slot;
    std::byte* entry =
        args.ledger + (std::size_t{place} * chunk.slots + slot) * entry_bytes(chunk.shard, chunk.type);
    copy_elements(chunk.type, entry, 0, args.receive, sender * chunk.shard, chunk.shard);
  }
}

}  // namespace sdp4bit::reference
