#include "muster/data/dataset/shuffle.h"

#include <array>

#include "muster/base/random.h"

namespace muster {

ShuffleDraws::ShuffleDraws(std::uint64_t seed, std::uint64_t epoch)
    : key_(derive_key(seed, epoch)) {}

std::size_t ShuffleDraws::draw(std::size_t size) {
  std::uint64_t bits = spare_;
  if (drawn_ % 2 == 0) {
    const std::array<std::uint32_t, 4> block = philox(key_, drawn_ / 2, 0);
    bits = std::uint64_t{block[0]} << 32 | block[1];
    spare_ = std::uint64_t{block[2]} << 32 | block[3];
  }
  ++drawn_;
  // The upper half of the product is uniform except for a bias of size / 2^64.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::size_t>((Wide{bits} * size) >> 64);
}

void ShuffleDraws::go_to(std::uint64_t draw_number) {
  drawn_ = draw_number - draw_number % 2;
  if (draw_number % 2 != 0) draw(1);
}

void save_shuffle(PositionWriter& writer, ShufflePosition position) {
  writer.number(position.drawn);
  writer.number(position.input_ended ? 1 : 0);
  writer.origins(std::move(position.held));
}

ShufflePosition restore_shuffle(PositionReader& reader, std::size_t buffer_size) {
  ShufflePosition position;
  position.drawn = reader.number();
  position.input_ended = reader.number() != 0;
  position.held = reader.origins();
  if (position.held.size() > buffer_size) {
    throw InvalidArgument("position was saved with {} elements in the buffer of {}({})",
                          position.held.size(), kShuffleKind, buffer_size);
  }
  sorted_once(position.held, kShuffleKind);
  return position;
}

void ShuffledNumbers::fill() {
  while (taken_ < size_ && held_.size() < buffer_size_) held_.push_back(taken_++);
}

std::uint32_t ShuffledNumbers::draw() {
  std::uint32_t& slot = held_[draws_.draw(held_.size())];
  if (taken_ < size_) return std::exchange(slot, taken_++);
  const std::uint32_t number = std::exchange(slot, held_.back());
  held_.pop_back();
  return number;
}

std::uint64_t ShuffledNumbers::skip(std::uint64_t numbers) {
  fill();
  std::uint64_t skipped = 0;
  for (; skipped < numbers && !held_.empty(); ++skipped) draw();
  return skipped;
}

std::optional<std::uint32_t> ShuffledNumbers::next() {
  fill();
  if (held_.empty()) return std::nullopt;
  return draw();
}

void ShuffledNumbers::go_to(std::uint64_t drawn, std::uint32_t taken,
                            std::vector<std::uint32_t> held) {
  draws_.go_to(drawn);
  taken_ = taken;
  held_ = std::move(held);
}

}  // namespace muster
