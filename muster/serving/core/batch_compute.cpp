#include <algorithm>
#include <exception>
#include <iterator>
#include <string>
#include <utility>

#include "muster/base/compute_deadline.h"
#include "muster/serving/core/batch_compute_internal.h"
#include "muster/serving/core/batch_rows_internal.h"

namespace muster::serving {
namespace {

using graph::TensorValue;

// The size to compute a batch of this many rows at.
std::int64_t filled_size(std::int64_t rows, const std::vector<std::int64_t>& allowed) {
  const auto found = std::ranges::lower_bound(allowed, rows);
  return found == allowed.end() ? rows : *found;
}

void compute_one(const BatchQueue::Run& run, BatchTicket& ticket) {
  try {
    const ComputeDeadline scope(ticket.deadline);
    ticket.answer.outputs = run(ticket.inputs);
    ticket.answer.batch_rows = ticket.rows;
  } catch (...) {
    ticket.failure = std::current_exception();
  }
}

// Room for all rows of the requests.
Tensors room_for(const BatchTickets& batch, std::int64_t rows) {
  Tensors joined;
  joined.reserve(batch.front()->inputs.size());
  for (const auto& [name, first] : batch.front()->inputs) {
    TensorValue& all = joined.emplace(name, TensorValue()).first->second;
    all.dtype = first.dtype;
    all.shape = first.shape;
    all.shape.front() = rows;
    const auto count = static_cast<std::size_t>(rows);
    all.bytes.reserve(count * elements_per_row(first.bytes, first.shape.front()));
    all.strings.reserve(count * elements_per_row(first.strings, first.shape.front()));
  }
  return joined;
}

// Moves strings. Nothing can fail in it: there is room.
void join_inputs(const BatchTickets& batch, Tensors& joined) {
  for (const auto& ticket : batch) {
    auto all = joined.begin();
    for (auto& [name, tensor] : ticket->inputs) {
      all->second.bytes += tensor.bytes;
      std::ranges::move(tensor.strings, std::back_inserter(all->second.strings));
      ++all;
    }
  }
}

void give_back_strings(Tensors joined, const BatchTickets& batch) {
  std::int64_t begin = 0;
  for (const auto& ticket : batch) {
    auto all = joined.begin();
    for (auto& [name, tensor] : ticket->inputs) {
      if (tensor.dtype == graph::DataType::kString) {
        tensor = taken_rows(all->second, begin, begin + ticket->rows);
      }
      ++all;
    }
    begin += ticket->rows;
  }
}

// False when the outputs are not one row per row of the inputs.
bool compute_joined(const BatchQueue::Run& run, const Tensors& joined, std::int64_t size,
                    const BatchTickets& batch, std::int64_t rows) {
  Tensors outputs = run(joined);
  const bool has_all_rows =
      std::ranges::all_of(outputs, [&](const auto& row) { return rows_in(row.second) == size; });
  if (!has_all_rows) return false;
  std::int64_t begin = 0;
  for (const auto& ticket : batch) {
    Tensors& its = ticket->answer.outputs;
    its.reserve(outputs.size());
    for (auto& [name, tensor] : outputs) {
      its.emplace(name, taken_rows(tensor, begin, begin + ticket->rows));
    }
    ticket->answer.batch_rows = rows;
    begin += ticket->rows;
  }
  return true;
}

Deadline latest_deadline(const BatchTickets& batch) {
  const auto time_of = [](const auto& ticket) { return ticket->deadline.time(); };
  return Deadline::at(time_of(*std::ranges::max_element(batch, {}, time_of)));
}

// Whether the batch was computed as one.
bool try_joined(const BatchQueue::Run& run, const std::vector<std::int64_t>& sizes,
                const BatchTickets& batch, std::int64_t rows) {
  const std::int64_t size = filled_size(rows, sizes);
  Tensors joined = room_for(batch, rows);
  join_inputs(batch, joined);
  bool is_whole = false;
  try {
    for (auto& [name, tensor] : joined) repeat_first_row(tensor, size - rows);
    const ComputeDeadline scope(latest_deadline(batch));
    is_whole = compute_joined(run, joined, size, batch, rows);
  } catch (const std::exception&) {
    // One of the requests is wrong, and only that one is to hear of it.
    is_whole = false;
  }
  if (!is_whole) give_back_strings(std::move(joined), batch);
  return is_whole;
}

}  // namespace

void compute_batch(const BatchQueue::Run& run, const std::vector<std::int64_t>& sizes,
                   const BatchTickets& batch) {
  std::int64_t rows = 0;
  for (const auto& ticket : batch) rows += ticket->rows;
  const bool fill = batch.front()->joinable && rows > 0 && filled_size(rows, sizes) != rows;
  if ((batch.size() > 1 || fill) && try_joined(run, sizes, batch, rows)) return;
  for (const auto& ticket : batch) {
    ticket->answer.outputs.clear();
    compute_one(run, *ticket);
  }
}

}  // namespace muster::serving
