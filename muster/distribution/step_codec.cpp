#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <array>
#include <memory>
#include <utility>

#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/step_codec_internal.h"

namespace muster::internal {
namespace {

// Every piece begins at a multiple of this, as the body does.
constexpr std::size_t kAlignment = 64;
constexpr std::array<std::byte, kAlignment> kPadding{};

void add_piece(std::vector<std::span<const std::byte>>& body, std::span<const std::byte> piece) {
  if (piece.empty()) return;
  body.push_back(piece);
  const std::size_t rest = piece.size() % kAlignment;
  if (rest != 0) body.push_back(std::span(kPadding).first(kAlignment - rest));
}

/// Cuts tensors out of a body, in the order in which they were added.
class BodyReader {
 public:
  explicit BodyReader(net::Buffer body) : body_(std::make_shared<net::Buffer>(std::move(body))) {}

  at::Tensor tensor(at::IntArrayRef sizes, at::ScalarType type) {
    std::uint64_t bytes = c10::elementSize(type);
    const std::uint64_t left = body_->size() - next_;
    for (const std::int64_t size : sizes) {
      if (size < 0 || (size > 0 && bytes > left / static_cast<std::uint64_t>(size))) {
        throw DataLoss("a message holds less than its head says");
      }
      bytes *= static_cast<std::uint64_t>(size);
    }
    std::byte* data = body_->data() + next_;
    next_ = std::min(body_->size(), next_ + (bytes + kAlignment - 1) / kAlignment * kAlignment);
    // The tensor keeps the body.
    return at::from_blob(
        data, sizes, [keep = body_](void*) {}, at::TensorOptions(type));
  }

 private:
  std::shared_ptr<net::Buffer> body_;
  std::size_t next_ = 0;
};

}  // namespace

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.device().is_cpu()) {
    throw Internal("a tensor that is sent is not contiguous on the CPU");
  }
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

Slice slice_of(std::int64_t elements, std::size_t rank, std::size_t ranks) {
  // Whole cache lines, so that additions are aligned.
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (elements + kLine - 1) / kLine;
  const auto start = [&](std::size_t place) {
    return std::min(elements, lines * static_cast<std::int64_t>(place) /
                                  static_cast<std::int64_t>(ranks) * kLine);
  };
  return {start(rank), start(rank + 1)};
}

StepMessage encode_step(std::int64_t step, std::int64_t sequence, const StepParts& parts,
                        const StepNotes& notes, ReplicaRange replicas, Slice slice) {
  HeadWriter head;
  StepMessage message;
  head.put(step);
  head.put(sequence);
  head.put(replicas.first);
  head.put(replicas.last);
  head.put(parts.present);
  head.put(parts.examples);
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) {
    const auto index = static_cast<std::size_t>(r);
    const at::Tensor& loss = parts.losses[index];
    head.put_number(loss.defined() ? 1 : 0);
    if (loss.defined()) head.put(loss.item<double>());
    const auto& position = notes.positions[index];
    head.put_number(position ? 1 : 0);
    if (position) head.put(*position);
  }
  head.put_number(parts.sums.size());
  for (const auto& [part, sum] : parts.sums) {
    head.put(part.first);
    head.put(part.second);
    head.put_number(sum ? 1 : 0);
    if (!sum) continue;
    add_piece(message.body,
              bytes_of(sum->flat).subspan(static_cast<std::size_t>(slice.first) * 4,
                                          static_cast<std::size_t>(slice.size()) * 4));
    for (const RowGradient& rows : sum->rows) {
      head.put(rows.empty() ? 0 : rows.values.size(0));
      head.put(rows.empty() ? 0 : rows.values.size(1));
      if (rows.empty()) continue;
      add_piece(message.body, bytes_of(rows.rows));
      add_piece(message.body, bytes_of(rows.values));
    }
  }
  if (replicas.contains(0)) {
    for (const at::Tensor& buffer : notes.buffers) add_piece(message.body, bytes_of(buffer));
  }
  message.head = head.bytes();
  return message;
}

namespace {

RowGradient read_rows(HeadReader& head, BodyReader& body) {
  const std::int64_t count = head.number();
  const std::int64_t width = head.number();
  if (count == 0) return {};
  RowGradient rows;
  rows.rows = body.tensor({count}, at::kLong);
  rows.values = body.tensor({count, width}, at::kFloat);
  return rows;
}

void read_parts(HeadReader& head, BodyReader& body, std::int64_t replicas, Slice slice,
                const StepNotes& notes, ReceivedStep& received) {
  const std::size_t count = head.count(24);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t first = head.number();
    const std::int64_t last = head.number();
    if (first < received.replicas.first || last > received.replicas.last || first >= last ||
        !TreeSum<Gradients>::is_part({first, last}, replicas)) {
      throw DataLoss("a message has a sum over the replicas [{}, {}), which is no part of {}",
                     first, last, replicas);
    }
    std::optional<Gradients>& sum = received.parts.sums[{first, last}];
    if (head.number() == 0) continue;
    sum.emplace();
    sum->flat = body.tensor({slice.size()}, at::kFloat);
    for (std::size_t table = 0; table < notes.tables; ++table) {
      sum->rows.push_back(read_rows(head, body));
    }
  }
}

}  // namespace

ReceivedStep decode_step(std::string_view bytes, net::Buffer memory, std::int64_t step,
                         std::int64_t sequence, std::int64_t replicas, Slice slice,
                         const StepNotes& notes) {
  HeadReader head(bytes);
  BodyReader body(std::move(memory));
  ReceivedStep received;
  const std::int64_t their_step = head.number();
  const std::int64_t their_sequence = head.number();
  if (their_step != step || their_sequence != sequence) {
    throw DataLoss("a message is about step {} (number {}), and step {} (number {}) is being made",
                   their_step, their_sequence, step, sequence);
  }
  received.replicas = {head.number(), head.number()};
  const auto& range = received.replicas;
  if (range.first < 0 || range.first > range.last || range.last > replicas) {
    throw DataLoss("a message is about the replicas [{}, {}) of {}", range.first, range.last,
                   replicas);
  }
  received.parts.present = head.number();
  received.parts.examples = head.number();
  received.parts.losses.resize(static_cast<std::size_t>(replicas));
  for (std::int64_t r = range.first; r < range.last; ++r) {
    if (head.number() != 0) {
      received.parts.losses[static_cast<std::size_t>(r)] = at::full({}, head.real(), at::kFloat);
    }
    received.positions.emplace_back();
    if (head.number() != 0) received.positions.back() = std::string(head.text());
  }
  read_parts(head, body, replicas, slice, notes, received);
  if (range.contains(0)) {
    for (const at::Tensor& buffer : notes.buffers) {
      received.buffers.push_back(body.tensor(buffer.sizes(), buffer.scalar_type()));
    }
  }
  if (!head.at_end()) throw DataLoss("a message of a step is longer than it can be");
  return received;
}

}  // namespace muster::internal
