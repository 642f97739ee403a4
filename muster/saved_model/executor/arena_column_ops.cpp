// Words to numbers in an arena: hashes and lookups.
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "muster/base/fingerprint.h"
#include "muster/saved_model/executor/arena_kernels_internal.h"
#include "muster/saved_model/executor/small_tensor_ops_internal.h"

namespace muster::executor::arena {
namespace {

ArenaOp hash_bucket(const ArenaNode& of) {
  const auto buckets = graph::attr<std::int64_t>(*of.node, "num_buckets");
  if (buckets < 1) return {};
  return {[buckets = static_cast<std::uint64_t>(buckets)](ArenaCall& call) {
    const ArenaValue& in = call.in(0);
    if (in.type != ArenaType::kStrings) return false;
    auto* const to = call.make<std::int64_t>(ArenaType::kInt64, in.shape());
    if (to == nullptr) return false;
    const auto* const words = in.as<std::string_view>();
    for (std::int64_t i = 0; i < in.count; ++i) {
      to[i] = static_cast<std::int64_t>(fingerprint64(words[i]) % buckets);
    }
    return true;
  }};
}

/// Looks keys up in the content that a table has for good.
class Lookup {
 public:
  /// `values` are those of the content: numbers of 4 or 8 bytes.
  Lookup(std::shared_ptr<const Table::Content> content, const at::Tensor& values, ArenaType type)
      : content_(std::move(content)), values_(values), type_(type) {}

  bool operator()(ArenaCall& call) const {
    const ArenaValue& keys = call.in(1);
    const ArenaValue& otherwise = call.in(2);
    if (otherwise.type != type_ || otherwise.count != 1) return false;
    void* const to = call.make(type_, keys.shape());
    if (to == nullptr) return false;
    if (keys.type == ArenaType::kStrings && content_->keys.index() == 1) {
      return find<std::string_view>(content_->strings, keys, otherwise, static_cast<char*>(to));
    }
    if (keys.type == ArenaType::kInt64 && has_int64_keys()) {
      return find<std::int64_t>(content_->numbers, keys, otherwise, static_cast<char*>(to));
    }
    return false;
  }

 private:
  bool has_int64_keys() const {
    const auto* numbers = std::get_if<at::Tensor>(&content_->keys);
    return numbers != nullptr && numbers->scalar_type() == at::kLong;
  }

  template <typename Key, typename Map>
  bool find(const Map& map, const ArenaValue& keys, const ArenaValue& otherwise, char* to) const {
    const std::size_t bytes = size_of(type_);
    const auto* const all = static_cast<const char*>(values_.data_ptr());
    for (std::int64_t i = 0; i < keys.count; ++i, to += bytes) {
      const auto found = map.find(keys.as<Key>()[i]);
      const char* const from = found == map.end()
                                   ? otherwise.as<char>()
                                   : all + static_cast<std::size_t>(found->second) * bytes;
      std::memcpy(to, from, bytes);
    }
    return true;
  }

  std::shared_ptr<const Table::Content> content_;
  at::Tensor values_;
  ArenaType type_;
};

ArenaOp lookup(const ArenaNode& of) {
  if (!of.tables_stay || of.constants.size() != 3 || of.constants[0] == nullptr) return {};
  const auto* table = std::get_if<std::shared_ptr<Table>>(of.constants[0]);
  if (table == nullptr || !(*table)->is_filled()) return {};
  auto content = (*table)->content();
  const auto* values = std::get_if<at::Tensor>(&content->values);
  if (values == nullptr) return {};
  const at::Tensor held = values->contiguous();
  if (held.scalar_type() == at::kLong) {
    return {Lookup(std::move(content), held, ArenaType::kInt64)};
  }
  if (held.scalar_type() == at::kFloat) {
    return {Lookup(std::move(content), held, ArenaType::kFloat)};
  }
  return {};
}

}  // namespace

ArenaFactories column_ops() {
  using Op = ArenaEntry;
  static constexpr std::array kOps{
      Op{"LookupTableFind", 3, lookup},
      Op{"LookupTableFindV2", 3, lookup},
      Op{"StringToHashBucketFast", 1, hash_bucket},
  };
  return kOps;
}

}  // namespace muster::executor::arena
