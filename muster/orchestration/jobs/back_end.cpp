#include "muster/orchestration/jobs/back_end.h"

#include <nlohmann/json.hpp>

#include "muster/orchestration/jobs/block_internal.h"

namespace muster::jobs {

void BackEnd::prepare(Submission& /*submission*/) const {}

std::optional<std::string> BackEnd::preview(const Submission& /*submission*/) const { return {}; }

Job BackEnd::cancel(const JobStore& store, const std::string& name,
                    const std::string& reason) const {
  const auto refresh_one = [&] {
    if (const Job job = store.read(name); !is_final(job.state))
      refresh_or_warn(*this, store, {job});
  };
  refresh_one();
  const Job job = store.change(name, [&](Job& changed) {
    if (is_final(changed.state) || changed.state == State::kCancelling) return;
    changed.state = State::kCancelling;
    changed.error_message = reason;
  });
  if (is_final(job.state)) return job;
  end(store, job);
  refresh_one();
  return store.read(name);
}

void BackEnd::remove(const JobStore& /*store*/, const Job& /*job*/) const {}

std::string BackEnd::note(const Job& /*job*/) const { return ""; }

std::string block_text(const Job& job, const std::string& field) {
  return read_block(job, [&](const nlohmann::ordered_json& block) {
    const auto found = block.find(field);
    return found != block.end() && found->is_string() ? found->get<std::string>() : std::string();
  });
}

void set_block_text(Job& job, const std::string& field, const std::string& value) {
  job.block = read_block(job, [&](nlohmann::ordered_json block) {
    block[field] = value;
    return block_of(block);
  });
}

}  // namespace muster::jobs
