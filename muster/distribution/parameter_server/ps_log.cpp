#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/sha256.h"
#include "muster/distribution/parameter_server/ps_log_internal.h"
#include "muster/distribution/parameter_server/ps_values_internal.h"
#include "muster/distribution/wire/message_table_internal.h"

namespace muster::internal {
namespace {

using Kind = StepLogRecord::Kind;

LoggedStep logged_of(const PendingStep& pending) {
  return {.outcome = outcome_of(pending.outcome),
          .positions = pending.positions,
          .mean = {.flat = pending.mean.flat,
                   .ranges = {{0, pending.mean.flat.numel()}},
                   .rows = pending.mean.rows},
          .buffers = {pending.buffers}};
}

PendingStep pending_of(const StepLogRecord& record, std::string_view bytes,
                       const ExpectedTensors& expected) {
  net::Buffer memory(bytes.size());
  std::memcpy(memory.data(), bytes.data(), bytes.size());
  try {
    auto logged = decode_as<LoggedStep>("logged step", record.detail, std::move(memory), expected);
    return {.mean = {std::move(logged.mean.flat), std::move(logged.mean.rows)},
            .outcome = result_of(logged.outcome),
            .positions = std::move(logged.positions),
            .buffers = std::move(logged.buffers.tensors),
            .pushes = record.pushes};
  } catch (Error& error) {
    error.add_context(fmt::format("step {} in the log", record.step + 1));
    throw;
  }
}

PsLog::Base base_of(const StepLogRecord& record) {
  MessageReader detail(record.detail);
  PsLog::Base base{.step = record.step, .skipped_batches = record.skipped_batches};
  detail.read(base.inputs_from);
  detail.read(base.state_json);
  base.squares = record.squares;
  return base;
}

}  // namespace

std::vector<at::Tensor> held_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater) {
  std::vector<at::Tensor> pieces = slot_pieces(layout, server, variables, updater);
  // The first server's have them; for the checkpoint they are used only once.
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
  MessageWriter text;
  text.put(servers);
  for (const std::string& rule : rules) text.put(rule);
  for (const NamedTensor& named : tensors) {
    text.put(named.name);
    text.put(named.tensor.scalar_type());
    for (const std::int64_t size : named.tensor.sizes()) text.put(size);
  }
  return sha256_hex(text.header());
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

bool PsLog::recover(const ExpectedTensors& expected, const Replay& replay) {
  try {
    return log_.recover(identity_, [&](const StepLogRecord& record, std::string_view body) {
      switch (record.kind) {
        case Kind::kBase:
          load(body);
          replay.base(base_of(record));
          break;
        case Kind::kPrepared:
          replay.prepared(pending_of(record, body, expected));
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
  MessageWriter detail;
  detail.put(base.inputs_from);
  detail.put(base.state_json);
  Body body;
  for (const at::Tensor& piece : pieces_) body.push_back(bytes_of(piece));
  try {
    log_.begin({.kind = Kind::kBase,
                .step = base.step,
                .skipped_batches = base.skipped_batches,
                .identity = identity_,
                .squares = base.squares,
                .detail = detail.header()},
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

void PsLog::prepared(std::int64_t step, std::int64_t skipped_batches, const PendingStep& pending) {
  const LoggedStep logged = logged_of(pending);
  EncodedMessage encoded = encode(logged);
  append({.kind = Kind::kPrepared,
          .step = step,
          .skipped_batches = skipped_batches,
          .pushes = pending.pushes,
          .detail = std::move(encoded.header)},
         encoded.body);
}

void PsLog::committed(std::int64_t step, std::int64_t skipped_batches,
                      const std::vector<double>& squares, bool is_left_out) {
  append({.kind = Kind::kCommitted,
          .step = step,
          .skipped_batches = skipped_batches,
          .is_left_out = is_left_out,
          .squares = squares});
}

void PsLog::ended(std::int64_t step, std::int64_t skipped_batches) {
  append({.kind = Kind::kEnded, .step = step, .skipped_batches = skipped_batches});
}

}  // namespace muster::internal
