// Deliberate mistakes of a rank or of the library's wiring, to show that the exploration finds them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace agreement {

enum class Mistake : std::uint8_t {
  none,
  decides_by_own_record,
  reads_what_has_arrived,
  native_where_allocation_fails,
  ready_without_memory,
  refreshes_by_own_count,
  replica_by_own_verdict,
  replica_of_any_rank,
  workspace_missing_alone,
  handshake_read_on_arrival,
  handshake_by_own_settings,
  entries_set_at_known_addresses,
  senders_slot_taken_for_own,
  slots_beyond_the_agreed,
  reset_alone,
  vote_by_own_jump,
  native_after_a_failure,
  class_made_by_free_memory,
  count_  // how many there are
};

struct MistakeText {
  std::string_view name;
  std::string_view scenario;  // that shows it
  std::string_view about;
};

/// By Mistake, without `none`.
inline constexpr std::array<MistakeText, static_cast<std::size_t>(Mistake::count_) - 1> kMistakes{{
    {"decides_by_own_record", "sizes", "a rank decides by what it said itself, not by what all said"},
    {"reads_what_has_arrived", "orders", "words that have not arrived are left out instead of waited for"},
    {"native_where_allocation_fails", "memory", "a rank without memory for its ledger sends natively, alone"},
    {"ready_without_memory", "memory", "a record says \"ready\" where the allocation failed"},
    {"refreshes_by_own_count", "addresses", "a refresh is due by the calls of one slot of this rank"},
    {"replica_by_own_verdict", "verdicts", "a rank follows its own probe before all have answered"},
    {"replica_of_any_rank", "verdicts", "the first \"replica\" counts for all ranks"},
    {"workspace_missing_alone", "handshake", "a rank without workspace says yes, and is off by itself"},
    {"handshake_read_on_arrival", "handshake_orders",
     "the handshake is read by the group that finds it arrived"},
    {"handshake_by_own_settings", "handshake", "a rank that is switched off does not wait for the verdict"},
    {"entries_set_at_known_addresses", "addresses",
     "a holder leaves its entries alone where its own buffer is new"},
    {"senders_slot_taken_for_own", "addresses", "a holder keeps a sender's entry under its own slot"},
    {"slots_beyond_the_agreed", "addresses", "a new address gets a new slot in difference, too"},
    {"reset_alone", "resets", "a rank whose program asked learns anew without the others"},
    {"vote_by_own_jump", "votes", "a voted call goes native by this rank's own jump"},
    {"native_after_a_failure", "failures", "a rank that failed goes on natively"},
    {"class_made_by_free_memory", "classes", "a rank short of memory makes no class"},
}};

}  // namespace agreement
