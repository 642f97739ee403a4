#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <map>
#include <utility>

#include "muster/distribution/body_codec_internal.h"
#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/ps_messages_internal.h"

namespace muster::internal {

RunTerms terms_with_backups(RunTerms terms, std::int64_t backup_replicas) {
  if (backup_replicas > 0) {
    terms.arithmetic += fmt::format(", backup_replicas={}", backup_replicas);
  }
  return terms;
}

EncodedMessage encode_values(const ValuesMessage& message) {
  HeaderWriter header;
  EncodedMessage encoded;
  header.put(message.step);
  header.put(message.outcome.present);
  header.put(message.outcome.examples);
  header.put(message.outcome.not_finite);
  header.put_number(message.outcome.losses.size());
  for (const at::Tensor& loss : message.outcome.losses) put_loss(header, loss);
  header.put_number(message.positions.size());
  for (const auto& position : message.positions) put_position(header, position);
  header.put(message.left_out);
  header.put(message.inputs_from);
  header.put(message.state_json);
  header.put_number(message.flat.defined() ? 1 : 0);
  if (message.flat.defined()) {
    add_ranges(encoded.body, message.flat, message.ranges);
    for (const RowGradient& rows : message.rows) put_rows(header, encoded.body, rows);
  }
  header.put_number(message.buffers.size());
  for (const at::Tensor& buffer : message.buffers) add_piece(encoded.body, bytes_of(buffer));
  encoded.header = header.bytes();
  return encoded;
}

ValuesMessage decode_values(std::string_view bytes, net::Buffer memory, std::int64_t flat_size,
                            std::size_t tables, const std::vector<at::Tensor>& buffers) {
  HeaderReader header(bytes);
  BodyReader body(std::move(memory));
  ValuesMessage message;
  message.step = header.number();
  message.outcome.present = header.number();
  message.outcome.examples = header.number();
  message.outcome.not_finite = header.text();
  message.outcome.losses.resize(header.count(8));
  for (at::Tensor& loss : message.outcome.losses) loss = read_loss(header);
  message.positions.resize(header.count(8));
  for (auto& position : message.positions) position = read_position(header);
  message.left_out = header.number();
  message.inputs_from = header.number();
  message.state_json = header.text();
  if (header.number() != 0) {
    message.flat = body.tensor({flat_size}, at::kFloat);
    for (std::size_t table = 0; table < tables; ++table) {
      message.rows.push_back(read_rows(header, body));
    }
  }
  const auto count = static_cast<std::size_t>(header.number());
  if (count != 0 && count != buffers.size()) {
    throw DataLoss("a server sent {} buffers, and the model has {}", count, buffers.size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    message.buffers.push_back(body.tensor(buffers[i].sizes(), buffers[i].scalar_type()));
  }
  if (!header.at_end()) throw DataLoss("a message with values is longer than it can be");
  return message;
}

void put_all_values(ValuesMessage& message, std::size_t server, const PsLayout& layout,
                    const Variables& variables) {
  message.flat = variables.flat();
  message.ranges = layout.flat(server);
  message.rows.resize(variables.sparse_count());
  for (const VariablePart& part : layout.parts(server)) {
    const Variable& variable = variables.all()[part.variable];
    if (!variable.sparse()) continue;
    RowGradient& rows = message.rows[static_cast<std::size_t>(variable.rows_index)];
    const at::Tensor numbers = at::arange(part.first, part.last, at::kLong);
    const at::Tensor values = part.of(variable.value, variable);
    rows = rows.empty()
               ? RowGradient{numbers, values}
               : RowGradient{at::cat({rows.rows, numbers}), at::cat({rows.values, values})};
  }
  if (server == 0) message.buffers = untrained(variables);
}

void write_values(const ValuesMessage& message, std::size_t server, const PsLayout& layout,
                  const Variables& variables, const std::vector<at::Tensor>& buffers) {
  for (std::size_t i = 0; i < message.buffers.size(); ++i) buffers[i].copy_(message.buffers[i]);
  if (!message.flat.defined()) return;
  layout.scatter(server, message.flat, variables.flat());
  for (const Variable& variable : variables.all()) {
    if (!variable.sparse()) continue;
    const RowGradient& rows = message.rows[static_cast<std::size_t>(variable.rows_index)];
    if (!rows.empty()) variable.value.index_copy_(0, rows.rows, rows.values);
  }
}

std::vector<at::Tensor> untrained(const Variables& variables) {
  std::vector<at::Tensor> tensors;
  for (const Variable& variable : variables.all()) {
    if (!variable.spec.trainable) tensors.push_back(variable.value);
  }
  return tensors;
}

std::vector<at::Tensor> slot_pieces(const PsLayout& layout, std::size_t server,
                                    const Variables& variables, const Updater& updater) {
  std::map<std::string, std::vector<at::Tensor>, std::less<>> by_variable;
  std::vector<at::Tensor> pieces;
  for (const NamedTensor& slot : updater.tensors()) {
    if (const Variable* const owner = variables.owner_of_slot(slot.name)) {
      by_variable[owner->spec.name].push_back(slot.tensor);
    } else if (server == 0) {
      pieces.push_back(slot.tensor.view({-1}));
    }
  }
  for (const VariablePart& part : layout.parts(server)) {
    const Variable& variable = variables.all()[part.variable];
    for (const at::Tensor& slot : by_variable[variable.spec.name]) {
      pieces.push_back(part.of(slot, variable));
    }
  }
  return pieces;
}

}  // namespace muster::internal
