#include <algorithm>
#include <array>

#include "muster/distribution/wire/tensors_internal.h"

namespace muster::internal {
namespace {

constexpr std::size_t kBodyAlignment = 64;
constexpr std::array<std::byte, kBodyAlignment> kBodyPadding{};
const ExpectedTensors kNoTensors;

}  // namespace

void MessageWriter::put_number(std::int64_t value) {
  for (int shift = 0; shift < 64; shift += 8) {
    message_.header.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xff));
  }
}

void MessageWriter::add_piece(std::span<const std::span<const std::byte>> pieces) {
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    if (!piece.empty()) message_.body.push_back(piece);
    size += piece.size();
  }
  const std::size_t rest = size % kBodyAlignment;
  if (rest != 0) message_.body.push_back(std::span(kBodyPadding).first(kBodyAlignment - rest));
}

MessageReader::MessageReader(std::string_view header, net::Buffer body,
                             const ExpectedTensors& expected)
    : header_(header), body_(std::make_shared<net::Buffer>(std::move(body))), expected_(expected) {}

MessageReader::MessageReader(std::string_view header) : MessageReader(header, {}, kNoTensors) {}

std::int64_t MessageReader::number() {
  const std::string_view eight = take_header(8);
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(eight[i]);
  return static_cast<std::int64_t>(value);
}

std::size_t MessageReader::count(std::size_t bytes_each) {
  const std::int64_t value = number();
  if (value < 0 || static_cast<std::uint64_t>(value) > header_.size() / bytes_each) {
    throw DataLoss("a message says that {} things follow, but it has {} more bytes", value,
                   header_.size());
  }
  return static_cast<std::size_t>(value);
}

std::string_view MessageReader::take_header(std::size_t size) {
  if (size > header_.size()) {
    throw DataLoss("a message ends {} bytes too early", size - header_.size());
  }
  const std::string_view taken = header_.substr(0, size);
  header_.remove_prefix(size);
  return taken;
}

std::byte* MessageReader::take_piece(std::uint64_t bytes) {
  if (bytes > body_left()) throw DataLoss("a message holds less than its header says");
  std::byte* const piece = body_->data() + next_;
  const std::uint64_t whole = (bytes + kBodyAlignment - 1) / kBodyAlignment * kBodyAlignment;
  next_ += static_cast<std::size_t>(std::min(whole, body_left()));
  return piece;
}

}  // namespace muster::internal
