#include "muster/distribution/wire/tensors_internal.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>

namespace muster::internal {
namespace {

/// How many bytes such a tensor has; no more than `most`.
std::uint64_t tensor_bytes(at::IntArrayRef sizes, at::ScalarType type, std::uint64_t most) {
  std::uint64_t bytes = c10::elementSize(type);
  for (const std::int64_t size : sizes) {
    if (size < 0 || (size > 0 && bytes > most / static_cast<std::uint64_t>(size))) {
      throw DataLoss("a message holds less than its header says");
    }
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

void put_rows(MessageWriter& writer, const RowGradient& rows) {
  writer.put(rows.empty() ? std::int64_t{0} : rows.values.size(0));
  writer.put(rows.empty() ? std::int64_t{0} : rows.values.size(1));
  if (rows.empty()) return;
  writer.add_piece(bytes_of(rows.rows));
  writer.add_piece(bytes_of(rows.values));
}

RowGradient take_rows(MessageReader& reader, const TableShape& table) {
  const auto count = reader.take<std::int64_t>();
  const auto width = reader.take<std::int64_t>();
  if (count == 0) return {};
  if (count > table.rows || width != table.width) {
    throw DataLoss("a message has {} rows of {} elements of a table with {} of {}", count, width,
                   table.rows, table.width);
  }
  RowGradient rows;
  rows.rows = take_tensor(reader, {count}, at::kLong);
  rows.values = take_tensor(reader, {count, width}, at::kFloat);
  const std::span<const std::int64_t> numbers(rows.rows.data_ptr<std::int64_t>(),
                                              static_cast<std::size_t>(count));
  const bool rise = std::ranges::adjacent_find(numbers, std::greater_equal<>()) == numbers.end();
  if (!rise || numbers.front() < 0 || numbers.back() >= table.rows) {
    throw DataLoss("a message has rows that a table with {} does not have, or out of order",
                   table.rows);
  }
  return rows;
}

}  // namespace

std::vector<TableShape> table_shapes(const Variables& variables) {
  std::vector<TableShape> shapes(variables.sparse_count());
  for (const Variable& variable : variables.all()) {
    if (!variable.sparse()) continue;
    shapes[static_cast<std::size_t>(variable.rows_index)] = {variable.value.size(0),
                                                             variable.value.size(1)};
  }
  return shapes;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.device().is_cpu()) {
    throw Internal("a tensor that is sent is not contiguous on the CPU");
  }
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

at::Tensor take_tensor(MessageReader& reader, at::IntArrayRef sizes, at::ScalarType type) {
  std::byte* const data = reader.take_piece(tensor_bytes(sizes, type, reader.body_left()));
  return at::from_blob(
      data, sizes, [keep = reader.body()](void*) {}, at::TensorOptions(type));
}

void VariableTensors::write(MessageWriter& writer) const {
  const std::span<const std::byte> bytes = bytes_of(flat);
  Body pieces;
  for (const FlatRange& range : ranges) {
    pieces.push_back(
        bytes.subspan(static_cast<std::size_t>(range.first) * sizeof(float),
                      static_cast<std::size_t>(range.last - range.first) * sizeof(float)));
  }
  writer.add_piece(pieces);
  for (const RowGradient& one : rows) put_rows(writer, one);
}

void VariableTensors::read(MessageReader& reader) {
  flat = take_tensor(reader, {reader.expected().flat_size}, at::kFloat);
  // So that it can be sent on.
  ranges = {{0, flat.numel()}};
  for (const TableShape& table : reader.expected().tables) rows.push_back(take_rows(reader, table));
}

void BufferTensors::write(MessageWriter& writer) const {
  writer.put(tensors.size());
  for (const at::Tensor& tensor : tensors) writer.add_piece(bytes_of(tensor));
}

void BufferTensors::read(MessageReader& reader) {
  const auto& expected = reader.expected().buffers;
  const auto count = reader.take<std::size_t>();
  if (count != 0 && count != expected.size()) {
    throw DataLoss("a message has {} buffers, and the model has {}", count, expected.size());
  }
  for (std::size_t i = 0; i < count; ++i) {
    tensors.push_back(take_tensor(reader, expected[i].sizes(), expected[i].scalar_type()));
  }
}

void BodyDoubles::read(MessageReader& reader) {
  const std::uint64_t bytes = reader.body_left();
  if (bytes % sizeof(double) != 0) throw DataLoss("{} bytes are no list of numbers", bytes);
  values.resize(static_cast<std::size_t>(bytes / sizeof(double)));
  if (bytes > 0)
    std::memcpy(values.data(), reader.take_piece(bytes), values.size() * sizeof(double));
}

void BodyBytes::read(MessageReader& reader) {
  const std::uint64_t size = reader.body_left();
  memory = reader.body();
  bytes = {reader.take_piece(size), static_cast<std::size_t>(size)};
}

at::Tensor BodyBytes::as_tensor(at::IntArrayRef sizes, at::ScalarType type) const {
  if (tensor_bytes(sizes, type, bytes.size()) != bytes.size()) {
    throw DataLoss("a message holds {} bytes, which is another size than was due", bytes.size());
  }
  return at::from_blob(
      const_cast<std::byte*>(bytes.data()), sizes, [keep = memory](void*) {},
      at::TensorOptions(type));
}

}  // namespace muster::internal
