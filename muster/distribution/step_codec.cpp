#include <algorithm>
#include <utility>

#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/step_codec_internal.h"

namespace muster::internal {
FlatRange slice_of(std::int64_t elements, std::size_t rank, std::size_t ranks) {
  // Whole cache lines, so that additions are aligned.
  constexpr std::int64_t kLine = 16;
  const std::int64_t lines = (elements + kLine - 1) / kLine;
  const auto start = [&](std::size_t place) {
    return std::min(elements, lines * static_cast<std::int64_t>(place) /
                                  static_cast<std::int64_t>(ranks) * kLine);
  };
  return {start(rank), start(rank + 1)};
}

StepNotes notes_of(Participant& participant) {
  return {.positions = participant.positions(),
          .buffers = participant.buffers(),
          .flat_size = participant.run_variables().flat().numel(),
          .tables = participant.run_variables().sparse_count()};
}

EncodedMessage encode_step(std::int64_t step, std::int64_t sequence, const PartialSums& parts,
                           const StepNotes& notes, ReplicaRange replicas,
                           std::span<const FlatRange> dense) {
  HeaderWriter header;
  EncodedMessage message;
  header.put(step);
  header.put(sequence);
  header.put(replicas.first);
  header.put(replicas.last);
  header.put(parts.present);
  header.put(parts.examples);
  for (std::int64_t r = replicas.first; r < replicas.last; ++r) {
    const auto index = static_cast<std::size_t>(r);
    put_loss(header, parts.losses[index]);
    put_position(header, notes.positions[index]);
  }
  header.put_number(parts.sums.size());
  for (const auto& [part, sum] : parts.sums) {
    header.put(part.first);
    header.put(part.second);
    header.put_number(sum ? 1 : 0);
    if (!sum) continue;
    add_ranges(message.body, sum->flat, dense);
    for (const RowGradient& rows : sum->rows) put_rows(header, message.body, rows);
  }
  if (replicas.contains(0)) {
    for (const at::Tensor& buffer : notes.buffers) add_piece(message.body, bytes_of(buffer));
  }
  message.header = header.bytes();
  return message;
}

namespace {

void read_parts(HeaderReader& header, BodyReader& body, std::int64_t replicas,
                std::int64_t dense_size, const StepNotes& notes, ReceivedStep& received) {
  const std::size_t count = header.count(24);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t first = header.number();
    const std::int64_t last = header.number();
    if (first < received.replicas.first || last > received.replicas.last || first >= last ||
        !TreeSum<Gradients>::is_part({first, last}, replicas)) {
      throw DataLoss("a message has a sum over the replicas [{}, {}), which is no part of {}",
                     first, last, replicas);
    }
    std::optional<Gradients>& sum = received.parts.sums[{first, last}];
    if (header.number() == 0) continue;
    sum.emplace();
    sum->flat = body.tensor({dense_size}, at::kFloat);
    for (std::size_t table = 0; table < notes.tables; ++table) {
      sum->rows.push_back(read_rows(header, body));
    }
  }
}

}  // namespace

ReceivedStep decode_step(std::string_view bytes, net::Buffer memory, std::int64_t step,
                         std::int64_t sequence, std::int64_t replicas, std::int64_t dense_size,
                         const StepNotes& notes) {
  HeaderReader header(bytes);
  BodyReader body(std::move(memory));
  ReceivedStep received;
  const std::int64_t their_step = header.number();
  const std::int64_t their_sequence = header.number();
  if (their_step != step || their_sequence != sequence) {
    throw DataLoss("a message is about step {} (number {}), and step {} (number {}) is being made",
                   their_step, their_sequence, step, sequence);
  }
  received.replicas = {header.number(), header.number()};
  const auto& range = received.replicas;
  if (range.first < 0 || range.first > range.last || range.last > replicas) {
    throw DataLoss("a message is about the replicas [{}, {}) of {}", range.first, range.last,
                   replicas);
  }
  received.parts.present = header.number();
  received.parts.examples = header.number();
  received.parts.losses.resize(static_cast<std::size_t>(replicas));
  for (std::int64_t r = range.first; r < range.last; ++r) {
    received.parts.losses[static_cast<std::size_t>(r)] = read_loss(header);
    received.positions.push_back(read_position(header));
  }
  read_parts(header, body, replicas, dense_size, notes, received);
  if (range.contains(0)) {
    for (const at::Tensor& buffer : notes.buffers) {
      received.buffers.push_back(body.tensor(buffer.sizes(), buffer.scalar_type()));
    }
  }
  if (!header.at_end()) throw DataLoss("a message of a step is longer than it can be");
  return received;
}

std::string batch_difference(const std::string& task, const PartialSums& parts,
                             const std::string& other, const PartialSums& of_other) {
  if (parts.present == 0 || of_other.present == 0) return {};
  if (parts.examples * of_other.present == of_other.examples * parts.present) return {};
  return fmt::format(
      "a batch has {:g} examples in {} and {:g} in {}: the weights are not those of one batch "
      "size; "
      "give all tasks the same, unless their inputs are smaller than a batch",
      static_cast<double>(parts.examples) / static_cast<double>(parts.present), task,
      static_cast<double>(of_other.examples) / static_cast<double>(of_other.present), other);
}

void copy_positions(const ReceivedStep& from, InputPositions& positions) {
  std::ranges::copy(from.positions, positions.begin() + from.replicas.first);
}

PartialSums add_parts(std::int64_t replicas, PartialSums own, std::vector<ReceivedStep> received) {
  PartialSums total{.present = own.present,
                    .examples = own.examples,
                    .losses = std::move(own.losses),
                    .spec = std::move(own.spec)};
  total.losses.resize(static_cast<std::size_t>(replicas));
  TreeSum<Gradients> sum(replicas,
                         [](Gradients& into, Gradients&& from) { add_gradients(into, from); });
  const auto report = [&](TreeSum<Gradients>::Parts& parts) {
    for (auto& [part, value] : parts) sum.report_part(part, std::move(value));
  };
  report(own.sums);
  for (ReceivedStep& other : received) {
    total.present += other.parts.present;
    total.examples += other.parts.examples;
    for (std::int64_t r = other.replicas.first; r < other.replicas.last; ++r) {
      const auto index = static_cast<std::size_t>(r);
      total.losses[index] = std::move(other.parts.losses[index]);
    }
    report(other.parts.sums);
  }
  total.sums = sum.take_parts();
  return total;
}

}  // namespace muster::internal
