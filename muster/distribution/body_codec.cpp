#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <array>

#include "muster/distribution/body_codec_internal.h"

namespace muster::internal {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::array<std::byte, kAlignment> kPadding{};

}  // namespace

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.device().is_cpu()) {
    throw Internal("a tensor that is sent is not contiguous on the CPU");
  }
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

void add_piece(Body& body, std::span<const std::byte> piece) {
  add_piece(body, std::span(&piece, 1));
}

void add_piece(Body& body, std::span<const std::span<const std::byte>> pieces) {
  std::size_t size = 0;
  for (const auto& piece : pieces) {
    if (!piece.empty()) body.push_back(piece);
    size += piece.size();
  }
  const std::size_t rest = size % kAlignment;
  if (rest != 0) body.push_back(std::span(kPadding).first(kAlignment - rest));
}

void add_ranges(Body& body, const at::Tensor& flat, std::span<const FlatRange> ranges) {
  const std::span<const std::byte> bytes = bytes_of(flat);
  Body pieces;
  for (const FlatRange& range : ranges) {
    pieces.push_back(
        bytes.subspan(static_cast<std::size_t>(range.first) * sizeof(float),
                      static_cast<std::size_t>(range.last - range.first) * sizeof(float)));
  }
  add_piece(body, pieces);
}

at::Tensor BodyReader::tensor(at::IntArrayRef sizes, at::ScalarType type) {
  std::uint64_t bytes = c10::elementSize(type);
  const std::uint64_t left = body_->size() - next_;
  for (const std::int64_t size : sizes) {
    if (size < 0 || (size > 0 && bytes > left / static_cast<std::uint64_t>(size))) {
      throw DataLoss("a message holds less than its header says");
    }
    bytes *= static_cast<std::uint64_t>(size);
  }
  std::byte* data = body_->data() + next_;
  next_ = std::min(body_->size(), next_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return at::from_blob(
      data, sizes, [keep = body_](void*) {}, at::TensorOptions(type));
}

void put_rows(HeaderWriter& header, Body& body, const RowGradient& rows) {
  header.put(rows.empty() ? 0 : rows.values.size(0));
  header.put(rows.empty() ? 0 : rows.values.size(1));
  if (rows.empty()) return;
  add_piece(body, bytes_of(rows.rows));
  add_piece(body, bytes_of(rows.values));
}

RowGradient read_rows(HeaderReader& header, BodyReader& body) {
  const std::int64_t count = header.number();
  const std::int64_t width = header.number();
  if (count == 0) return {};
  RowGradient rows;
  rows.rows = body.tensor({count}, at::kLong);
  rows.values = body.tensor({count, width}, at::kFloat);
  return rows;
}

void put_loss(HeaderWriter& header, const at::Tensor& loss) {
  header.put_number(loss.defined() ? 1 : 0);
  if (loss.defined()) header.put(loss.item<double>());
}

at::Tensor read_loss(HeaderReader& header) {
  if (header.number() == 0) return {};
  return at::full({}, header.real(), at::kFloat);
}

void put_position(HeaderWriter& header, const std::optional<std::string>& position) {
  header.put_number(position ? 1 : 0);
  if (position) header.put(*position);
}

std::optional<std::string> read_position(HeaderReader& header) {
  if (header.number() == 0) return std::nullopt;
  return std::string(header.text());
}

}  // namespace muster::internal
