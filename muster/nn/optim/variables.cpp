#include "muster/nn/optim/variables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "muster/base/error.h"
#include "muster/nn/kernels/copy_plain.h"
#include "muster/nn/model/sparse_tables.h"

namespace muster {
namespace {

std::int64_t element_count(const VariableSpec& spec) {
  std::int64_t count = 1;
  for (const std::int64_t dimension : spec.shape) {
    if (dimension < 0) {
      throw InvalidArgument("variable `{}`: shape [{}] has a negative dimension", spec.name,
                            fmt::join(spec.shape, ", "));
    }
    if (__builtin_mul_overflow(count, dimension, &count)) {
      throw InvalidArgument("variable `{}`: shape [{}] has more elements than fit in memory",
                            spec.name, fmt::join(spec.shape, ", "));
    }
  }
  return count;
}

void check_names(std::span<const Variable> variables) {
  std::unordered_set<std::string_view> names;
  for (const Variable& variable : variables) {
    if (!names.insert(variable.spec.name).second) {
      throw InvalidArgument("two variables have the name `{}`", variable.spec.name);
    }
  }
}

void check_sparse(const VariableSpec& spec) {
  if (spec.sparse && (!spec.trainable || spec.shape.size() != 2)) {
    throw InvalidArgument(
        "variable `{}` of shape [{}] cannot be sparse: only a trainable table [rows, width] can",
        spec.name, fmt::join(spec.shape, ", "));
  }
}

/// A parameter or buffer of a module, under its variable's name.
struct Member {
  std::string name;
  at::Tensor tensor;
  bool trainable = false;
};

std::string variable_name(const AdoptOptions& options, const std::string& torch_name) {
  if (options.name) return options.name(torch_name);
  std::string name = torch_name;
  std::ranges::replace(name, '.', '/');
  return name;
}

/// The tensors that the module holds, each once.
std::vector<Member> parameters_of(const torch::nn::Module& module, const AdoptOptions& options) {
  std::vector<Member> members;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    members.push_back({variable_name(options, item.key()), tensor, tensor.requires_grad()});
  }
  return members;
}

std::vector<Member> buffers_of(const torch::nn::Module& module, const AdoptOptions& options) {
  std::vector<Member> members;
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_buffers()) {
    const at::Tensor& tensor = item.value();
    if (!tensor.defined() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    members.push_back({variable_name(options, item.key()), tensor, false});
  }
  return members;
}

Variable variable_of(const Member& member, const AdoptOptions& options, c10::Device device) {
  if (member.trainable && member.tensor.scalar_type() != at::kFloat) {
    throw InvalidArgument("variable `{}` is {}: trained variables are float32", member.name,
                          c10::toString(member.tensor.scalar_type()));
  }
  if (member.trainable && member.tensor.device() != device) {
    throw InvalidArgument("variable `{}` is on {}, others are on {}: move the module first",
                          member.name, member.tensor.device().str(), device.str());
  }
  return {.spec = {.name = member.name,
                   .shape = member.tensor.sizes().vec(),
                   .trainable = member.trainable,
                   .sparse = member.trainable && options.sparse && options.sparse(member.name),
                   .whole = member.trainable && options.whole && options.whole(member.name)},
          .value = member.tensor.detach()};
}

// An undefined gradient is 0. Small ones, of which a step has many, go past libtorch's dispatch.
void copy_gradient(const at::Tensor& from, at::Tensor to) {
  constexpr std::int64_t kSmall = 1 << 15;
  if (!from.defined()) {
    to.zero_();
  } else if (from.numel() >= kSmall || !kernels::copy_plain(from, to)) {
    const torch::NoGradGuard no_grad;
    to.copy_(from);
  }
}

void check_shape(const Variable& variable, const at::Tensor& parameter) {
  if (parameter.sizes() != variable.value.sizes()) {
    throw InvalidArgument("variable `{}` has shape [{}], the module's parameter [{}]",
                          variable.spec.name, fmt::join(variable.spec.shape, ", "),
                          fmt::join(parameter.sizes(), ", "));
  }
}

}  // namespace

at::Tensor VariablePart::of(const at::Tensor& tensor, const Variable& owner) const {
  const at::Tensor rows = owner.dense() ? tensor.view({-1}) : tensor;
  return rows.narrow(0, first, last - first);
}

at::Tensor Gradients::of(const Variable& variable) const {
  if (!variable.dense()) {
    throw InvalidArgument("variable `{}` has no dense gradient", variable.spec.name);
  }
  return flat.narrow(0, variable.offset - first, variable.value.numel())
      .view(variable.value.sizes());
}

at::Tensor Gradients::within(std::int64_t begin, std::int64_t end) const {
  const std::int64_t size = flat.numel();
  const std::int64_t from = std::clamp<std::int64_t>(begin - first, 0, size);
  const std::int64_t to = std::clamp<std::int64_t>(end - first, from, size);
  return flat.narrow(0, from, to - from);
}

Variables::Variables(std::vector<VariableSpec> specs) {
  for (VariableSpec& spec : specs) variables_.push_back({.spec = std::move(spec)});
  allocate(at::kCPU);
}

Variables::Variables(Variables&&) noexcept = default;
Variables& Variables::operator=(Variables&&) noexcept = default;
Variables::~Variables() = default;

Variables Variables::adopt(torch::nn::Module& module, const AdoptOptions& options) {
  Variables variables;
  variables.options_ = options;
  const std::vector<Member> parameters = parameters_of(module, options);
  const c10::Device device = parameters.empty() ? at::kCPU : parameters[0].tensor.device();
  for (const Member& member : parameters) {
    variables.variables_.push_back(variable_of(member, options, device));
  }
  for (const Member& member : buffers_of(module, options)) {
    variables.variables_.push_back(variable_of(member, options, device));
  }
  variables.allocate(device);
  return variables;
}

void Variables::allocate(c10::Device device) {
  check_names(variables_);
  std::int64_t size = 0;
  for (Variable& variable : variables_) {
    check_sparse(variable.spec);
    const std::int64_t count = element_count(variable.spec);
    if (variable.spec.sparse) {
      variable.rows_index = static_cast<std::int64_t>(sparse_count_++);
    } else if (variable.spec.trainable) {
      variable.offset = size;
      size += (count + kVariableAlignment - 1) / kVariableAlignment * kVariableAlignment;
    }
  }
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  flat_ = torch::zeros({size}, options.pinned_memory(options_.for_gpu && device.is_cpu()));
  for (Variable& variable : variables_) {
    const bool own_memory = variable.dense() || variable.sparse() || !variable.value.defined();
    if (!own_memory) continue;
    at::Tensor memory = variable.dense()
                            ? flat_.narrow(0, variable.offset, element_count(variable.spec))
                                  .view(variable.spec.shape)
                            : torch::zeros(variable.spec.shape, options);
    if (variable.value.defined()) memory.copy_(variable.value);
    variable.value = std::move(memory);
  }
}

AttachedModule Variables::attach(const std::shared_ptr<torch::nn::Module>& module) const {
  AttachedModule attached(module, make_gradients());
  std::unordered_set<std::string_view> tied;
  for (Member& member : parameters_of(*module, options_)) {
    const Variable* variable = find(member.name);
    if (variable == nullptr) {
      throw InvalidArgument("the module's parameter `{}` is no variable of this process",
                            member.name);
    }
    check_shape(*variable, member.tensor);
    attached.tie(*variable, std::move(member.tensor));
    tied.insert(variable->spec.name);
  }
  for (const Variable& variable : variables_) {
    if (variable.spec.trainable && !tied.contains(variable.spec.name)) {
      throw InvalidArgument("the module has no parameter for variable `{}`", variable.spec.name);
    }
  }
  attached.find_keepers();
  return attached;
}

const Variable* Variables::find(std::string_view name) const {
  const auto found = std::ranges::find_if(
      variables_, [&](const Variable& variable) { return variable.spec.name == name; });
  return found == variables_.end() ? nullptr : &*found;
}

const Variable* Variables::owner_of_slot(std::string_view name) const {
  while (true) {
    const auto slash = name.rfind('/');
    if (slash == std::string_view::npos) return nullptr;
    name = name.substr(0, slash);
    if (const Variable* const owner = find(name)) return owner;
  }
}

std::vector<VariablePart> Variables::whole() const {
  std::vector<VariablePart> parts;
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const Variable& variable = variables_[i];
    if (!variable.spec.trainable) continue;
    parts.push_back({i, 0, variable.dense() ? variable.value.numel() : variable.value.size(0)});
  }
  return parts;
}

std::int64_t Variables::parameter_count() const {
  std::int64_t count = 0;
  for (const Variable& variable : variables_) {
    if (variable.spec.trainable) count += variable.value.numel();
  }
  return count;
}

Gradients Variables::make_gradients() const {
  return {.flat = torch::zeros_like(flat_), .rows = std::vector<RowGradient>(sparse_count_)};
}

std::vector<NamedTensor> Variables::tensors() const {
  std::vector<NamedTensor> tensors;
  for (const Variable& variable : variables_) {
    tensors.push_back({variable.spec.name, variable.value});
  }
  return tensors;
}

AttachedModule::AttachedModule(std::shared_ptr<torch::nn::Module> module, Gradients gradients)
    : module_(std::move(module)), gradients_(std::move(gradients)) {}
AttachedModule::AttachedModule(AttachedModule&&) noexcept = default;
AttachedModule& AttachedModule::operator=(AttachedModule&&) noexcept = default;
AttachedModule::~AttachedModule() = default;

void AttachedModule::tie(const Variable& variable, at::Tensor parameter) {
  parameter.set_data(variable.value);
  if (variable.dense()) {
    at::Tensor gradient = gradients_.of(variable);
    parameter.mutable_grad() = gradient;
    dense_.push_back({std::move(parameter), std::move(gradient), variable.offset});
  } else if (variable.sparse()) {
    parameter.mutable_grad().reset();
    tables_.push_back(
        {variable.spec.name, std::move(parameter), static_cast<std::size_t>(variable.rows_index)});
  }
}

// A module of whose tables only some are sparse variables gives its gradients in libtorch's way.
void AttachedModule::find_keepers() {
  for (const auto& module : module_->modules()) {
    auto* sparse = dynamic_cast<SparseTables*>(module.get());
    if (sparse == nullptr) continue;
    Keeper keeper{.module = sparse};
    const std::vector<at::Tensor> owned = sparse->tables();
    for (const at::Tensor& tensor : owned) {
      const auto found = std::ranges::find_if(
          tables_, [&](const Table& table) { return table.parameter.is_same(tensor); });
      if (found != tables_.end()) keeper.rows_index.push_back(found->rows_index);
    }
    if (owned.empty() || keeper.rows_index.size() != owned.size()) continue;
    sparse->keep_row_gradients();
    keepers_.push_back(std::move(keeper));
  }
}

void AttachedModule::zero() {
  if (!gradients_.flat.defined() || gradients_.flat.is_cpu()) {
    // Backward then leaves its own tensors, which collect() copies: cheaper than zeros to add to.
    for (const Dense& dense : dense_) dense.parameter.mutable_grad().reset();
  } else {
    // One piece of work for the device instead of one for each variable; backward adds, or
    // writes, where gradients belong.
    gradients_.flat.zero_();
    for (const Dense& dense : dense_) {
      at::Tensor& gradient = dense.parameter.mutable_grad();
      if (!gradient.is_same(dense.gradient)) gradient = dense.gradient;
    }
  }
  for (const Table& table : tables_) {
    table.parameter.mutable_grad().reset();
    gradients_.rows[table.rows_index] = {};
  }
  for (const Keeper& keeper : keepers_) keeper.module->take_row_gradients();
}

std::vector<at::Tensor> AttachedModule::dense_parameters() const {
  std::vector<at::Tensor> parameters;
  for (const Dense& dense : dense_) parameters.push_back(dense.parameter);
  return parameters;
}

Gradients AttachedModule::release_gradients() {
  for (Dense& dense : dense_) {
    dense.parameter.mutable_grad().reset();
    dense.gradient.reset();
  }
  return {std::exchange(gradients_.flat, {}),
          std::exchange(gradients_.rows, std::vector<RowGradient>(gradients_.rows.size()))};
}

void AttachedModule::place_gradients(at::Tensor flat) {
  const torch::NoGradGuard no_grad;
  gradients_.flat = std::move(flat);
  for (Dense& dense : dense_) {
    const std::int64_t size = dense.parameter.numel();
    dense.gradient = gradients_.flat.narrow(0, dense.offset, size).view(dense.parameter.sizes());
    const std::int64_t padding =
        (kVariableAlignment - size % kVariableAlignment) % kVariableAlignment;
    if (padding > 0) gradients_.flat.narrow(0, dense.offset + size, padding).zero_();
  }
}

bool AttachedModule::collect() {
  bool moved = false;
  for (const Dense& dense : dense_) {
    at::Tensor& gradient = dense.parameter.mutable_grad();
    if (gradient.is_same(dense.gradient)) continue;
    copy_gradient(gradient, dense.gradient);
    gradient = dense.gradient;
    moved = true;
  }
  for (const Table& table : tables_) {
    const at::Tensor& gradient = table.parameter.grad();
    if (!gradient.defined()) continue;
    if (!gradient.is_sparse()) {
      throw FailedPrecondition(
          "variable `{}` is sparse, but its layer gave a dense gradient: build the embedding with "
          "sparse(true)",
          table.name);
    }
    gradients_.rows[table.rows_index] =
        sum_rows(gradient._indices()[0], gradient._values(), gradient.size(0), table.name);
  }
  for (const Keeper& keeper : keepers_) {
    std::vector<RowGradient> kept = keeper.module->take_row_gradients();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      RowGradient& rows = gradients_.rows[keeper.rows_index[i]];
      rows = rows.empty() ? std::move(kept[i]) : add_rows(rows, kept[i]);
    }
  }
  return moved;
}

}  // namespace muster
