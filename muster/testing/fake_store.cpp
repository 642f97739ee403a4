#include "muster/testing/fake_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

namespace muster::testing {

void FakeStore::set_fault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void FakeStore::lose_answer_of(const std::string& method) {
  const std::lock_guard lock(mutex_);
  lost_method_ = method;
}

std::map<std::string, FakeStore::Object> FakeStore::objects() const {
  const std::lock_guard lock(mutex_);
  return objects_;
}

std::optional<std::string> FakeStore::bytes_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(name);
  if (found == objects_.end()) return std::nullopt;
  return found->second.bytes;
}

void FakeStore::set_bytes(const std::string& name, std::string bytes) {
  const std::lock_guard lock(mutex_);
  store(name, std::move(bytes));
}

int FakeStore::calls(const std::string& kind) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(kind);
  return found == calls_.end() ? 0 : found->second;
}

CannedResponse FakeStore::handle(const HttpCall& call) {
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    fault = fault_;
  }
  if (fault) {
    if (auto answer = fault(call)) return *answer;
  }
  return flaky_.answer(
      call,
      [&] {
        const std::lock_guard lock(mutex_);
        CannedResponse answer = act(call);
        if (call.method == lost_method_) {
          lost_method_.clear();
          answer.hang_up = true;
        }
        return answer;
      },
      busy_);
}

FakeStore::Object& FakeStore::store(const std::string& name, std::string bytes) {
  std::string version = version_for(bytes);
  return objects_[name] = {std::move(bytes), std::move(version)};
}

FakeStore::Page FakeStore::page_of(const Listing& listing) const {
  Page page;
  const std::size_t most = std::min(page_keys_, listing.most);
  std::string last;
  for (const auto& [name, object] : objects_) {
    if (!name.starts_with(listing.bucket + "/" + listing.prefix)) continue;
    const std::string key = name.substr(listing.bucket.size() + 1);
    const auto end = listing.delimiter.empty() ? std::string::npos
                                               : key.find(listing.delimiter, listing.prefix.size());
    const std::string entry = end == std::string::npos ? key : key.substr(0, end + 1);
    if ((!listing.from.empty() && entry <= listing.from) || page.prefixes.contains(entry)) continue;
    if (page.keys.size() + page.prefixes.size() == most) {
      page.next = last;
      break;
    }
    last = entry;
    if (end == std::string::npos) {
      page.keys.push_back(key);
    } else {
      page.prefixes.insert(entry);
    }
  }
  return page;
}

bool FakeStore::add_range(const HttpCall& call, const std::string& bytes, CannedResponse& answer) {
  std::size_t begin = 0, end = 0;
  if (std::sscanf(call.header("range").c_str(), "bytes=%zu-%zu", &begin, &end) != 2) {
    answer.body = bytes;
    return true;
  }
  if (begin >= bytes.size()) return false;
  end = std::min(end, bytes.size() - 1);
  answer.status = 206;
  answer.headers.emplace_back("Content-Range",
                              fmt::format("bytes {}-{}/{}", begin, end, bytes.size()));
  answer.body = bytes.substr(begin, end - begin + 1);
  return true;
}

}  // namespace muster::testing
