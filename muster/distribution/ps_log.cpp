#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/sha256.h"
#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/ps_log_internal.h"
#include "muster/distribution/ps_messages_internal.h"

namespace muster::internal {
namespace {

using Kind = StepLogRecord::Kind;

EncodedMessage encode_pending(const PendingStep& pending) {
  HeaderWriter header;
  EncodedMessage encoded;
  header.put(pending.outcome.present);
  header.put(pending.outcome.examples);
  header.put(pending.outcome.not_finite);
  header.put_number(pending.outcome.losses.size());
  for (const at::Tensor& loss : pending.outcome.losses) put_loss(header, loss);
  header.put_number(pending.positions.size());
  for (const auto& position : pending.positions) put_position(header, position);
  add_piece(encoded.body, bytes_of(pending.mean.flat));
  for (const RowGradient& rows : pending.mean.rows) put_rows(header, encoded.body, rows);
  header.put_number(pending.buffers.size());
  for (const at::Tensor& buffer : pending.buffers) add_piece(encoded.body, bytes_of(buffer));
  encoded.header = header.bytes();
  return encoded;
}

PendingStep decode_pending(const StepLogRecord& record, std::string_view bytes,
                           const PsLog::Sizes& sizes) {
  net::Buffer memory(bytes.size());
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  BodyReader body(std::move(memory));
  HeaderReader header(record.detail);
  PendingStep pending{.pushes = record.pushes};
  pending.outcome.present = header.number();
  pending.outcome.examples = header.number();
  pending.outcome.not_finite = header.text();
  pending.outcome.losses.resize(header.count(8));
  for (at::Tensor& loss : pending.outcome.losses) loss = read_loss(header);
  pending.positions.resize(header.count(8));
  for (auto& position : pending.positions) position = read_position(header);
  pending.mean.flat = body.tensor({sizes.flat}, at::kFloat);
  for (std::size_t table = 0; table < sizes.tables; ++table) {
    pending.mean.rows.push_back(read_rows(header, body));
  }
  const auto buffers = static_cast<std::size_t>(header.number());
  if (buffers != 0 && buffers != sizes.buffers.size()) {
    throw DataLoss("step {} has {} buffers in the log, and the model has {}", record.step + 1,
                   buffers, sizes.buffers.size());
  }
  for (std::size_t i = 0; i < buffers; ++i) {
    const at::Tensor& like = sizes.buffers[i];
    pending.buffers.push_back(body.tensor(like.sizes(), like.scalar_type()));
  }
  if (!header.at_end())
    throw DataLoss("step {} is longer in the log than it can be", record.step + 1);
  return pending;
}

PsLog::Base base_of(const StepLogRecord& record) {
  HeaderReader header(record.detail);
  return {.step = record.step,
          .left_out = record.left_out,
          .inputs_from = header.number(),
          .state_json = std::string(header.text()),
          .squares = record.squares};
}

}  // namespace

std::vector<at::Tensor> held_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater) {
  std::vector<at::Tensor> pieces = slot_pieces(layout, server, variables, updater);
  // The first server's have them; for the checkpoint they are of use but once.
  if (server != 0) {
    for (const NamedTensor& slot : updater.tensors()) {
      if (slot.tensor.dim() == 0) pieces.push_back(slot.tensor.view({-1}));
    }
  }
  for (const VariablePart& part : layout.parts(server)) {
    const Variable& variable = variables.all()[part.variable];
    pieces.push_back(part.of(variable.value, variable));
  }
  for (const at::Tensor& tensor : untrained(variables)) pieces.push_back(tensor);
  return pieces;
}

std::string model_digest(const std::vector<NamedTensor>& tensors, std::size_t servers,
                         const std::vector<std::string>& rules) {
  HeaderWriter text;
  text.put_number(servers);
  for (const std::string& rule : rules) text.put(rule);
  for (const NamedTensor& named : tensors) {
    text.put(named.name);
    text.put_number(static_cast<int>(named.tensor.scalar_type()));
    for (const std::int64_t size : named.tensor.sizes()) text.put(size);
  }
  return sha256_hex(text.bytes());
}

PsLog::PsLog(const Path& folder, std::uint64_t most_bytes, StepLogIdentity identity,
             std::vector<at::Tensor> pieces)
    : log_(folder, {.most_bytes = most_bytes}),
      identity_(std::move(identity)),
      pieces_(std::move(pieces)) {}

void PsLog::load(std::string_view body) const {
  std::size_t bytes = 0;
  for (const at::Tensor& piece : pieces_) bytes += piece.nbytes();
  if (body.size() != bytes) {
    throw DataLoss("the log begins with {} bytes of values, where this task holds {}", body.size(),
                   bytes);
  }
  for (const at::Tensor& piece : pieces_) {
    std::memcpy(bytes_of(piece).data(), body.data(), piece.nbytes());
    body.remove_prefix(piece.nbytes());
  }
}

bool PsLog::recover(const Sizes& sizes, const Replay& replay) {
  try {
    return log_.recover(identity_, [&](const StepLogRecord& record, std::string_view body) {
      switch (record.kind) {
        case Kind::kBase:
          load(body);
          replay.base(base_of(record));
          break;
        case Kind::kPrepared:
          replay.prepared(decode_pending(record, body, sizes));
          break;
        case Kind::kCommitted:
          replay.committed(record.squares, record.is_left_out);
          break;
        case Kind::kEnded:
          break;
      }
    });
  } catch (Error& error) {
    error.add_context(
        fmt::format("the log of {} cannot be read; remove {} to go back to the last checkpoint",
                    identity_.task, log_.folder().string()));
    throw;
  }
}

void PsLog::begin(const Base& base) {
  HeaderWriter detail;
  detail.put(base.inputs_from);
  detail.put(base.state_json);
  Body body;
  for (const at::Tensor& piece : pieces_) body.push_back(bytes_of(piece));
  try {
    log_.begin({.kind = Kind::kBase,
                .step = base.step,
                .left_out = base.left_out,
                .identity = identity_,
                .squares = base.squares,
                .detail = detail.bytes()},
               body);
  } catch (Error& error) {
    error.add_context(
        fmt::format("{} cannot begin a log at step {}; make room for it, or train "
                    "without ps_log",
                    identity_.task, base.step));
    throw;
  }
}

void PsLog::append(const StepLogRecord& record, StepLogBody body) {
  try {
    log_.append(record, body);
  } catch (Error& error) {
    error.add_context(
        fmt::format("{} cannot log step {}; make room and start it again: it goes on from step {}",
                    identity_.task, record.step + 1, record.step));
    throw;
  }
}

void PsLog::prepared(std::int64_t step, std::int64_t left_out, const PendingStep& pending) {
  EncodedMessage encoded = encode_pending(pending);
  append({.kind = Kind::kPrepared,
          .step = step,
          .left_out = left_out,
          .pushes = pending.pushes,
          .detail = std::move(encoded.header)},
         encoded.body);
}

void PsLog::committed(std::int64_t step, std::int64_t left_out, const std::vector<double>& squares,
                      bool is_left_out) {
  append({.kind = Kind::kCommitted,
          .step = step,
          .left_out = left_out,
          .is_left_out = is_left_out,
          .squares = squares});
}

void PsLog::ended(std::int64_t step, std::int64_t left_out) {
  append({.kind = Kind::kEnded, .step = step, .left_out = left_out});
}

}  // namespace muster::internal
