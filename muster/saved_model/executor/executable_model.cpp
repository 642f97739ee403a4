#include "muster/saved_model/executor/executable_model.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/saved_model/executor/arena_plan_internal.h"
#include "muster/saved_model/executor/bundle_value_internal.h"
#include "muster/saved_model/executor/captured_plan_internal.h"
#include "muster/saved_model/executor/fused_layer_internal.h"
#include "muster/saved_model/executor/integrated_gradients_internal.h"
#include "muster/saved_model/executor/plan_internal.h"
#include "muster/saved_model/executor/sizes_internal.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/default_attrs.h"
#include "muster/saved_model/graph/inline_functions.h"

namespace muster::executor {
namespace {

constexpr std::string_view kInternalSignatures = "__saved_model";

std::string tensor_name(const graph::TensorInfo& info, const std::string& key) {
  if (info.sparse || info.name.empty()) {
    throw Unimplemented("{} is sparse, and only dense inputs and outputs are supported", key);
  }
  return info.name;
}

void check_input(const std::string& name, graph::DataType type, const graph::Shape& shape,
                 const Value& value) {
  const auto* tensor = std::get_if<at::Tensor>(&value);
  if (tensor && !tensor->defined()) throw InvalidArgument("the input {} has no value", name);
  const at::IntArrayRef sizes =
      tensor != nullptr ? tensor->sizes() : at::IntArrayRef(std::get<StringTensor>(value).shape());
  if (graph::without_ref(type) != data_type_of(value) || !graph::fits(shape, sizes)) {
    throw InvalidArgument("the input {} must be {} {}, but is {}", name, graph::name_of(type),
                          graph::to_string(shape), describe(value));
  }
  check_countable(sizes);
}

// Shape that TensorFlow asks of a tensor that is fed: that of its placeholder, if it is one. An
// empty shape is one that an old graph left open.
graph::Shape placeholder_shape(const graph::GraphDef& graph, const std::string& tensor) {
  const std::string node_name = tensor.substr(0, tensor.find(':'));
  for (const graph::NodeDef& node : graph.nodes) {
    if (node.name != node_name || node.op != "Placeholder") continue;
    const auto shape = graph::attr_or<graph::Shape>(node, "shape", graph::Shape::any());
    return shape.dims.empty() ? graph::Shape::any() : shape;
  }
  return graph::Shape::any();
}

template <typename Map>
std::string keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  return fmt::format("{}", fmt::join(keys, ", "));
}

struct SignatureInput {
  std::string name{};
  graph::DataType type{};
  graph::Shape shape{};
};

// Whether check_input() would find nothing wrong, and the bytes are as many as the shape wants.
bool fits_input(const SignatureInput& input, const graph::TensorValue& value) {
  if (graph::without_ref(input.type) != value.dtype || !graph::fits(input.shape, value.shape)) {
    return false;
  }
  const auto count = graph::element_count(value.shape);
  if (!count) return false;
  if (value.dtype == graph::DataType::kString) {
    return static_cast<std::int64_t>(value.strings.size()) == *count;
  }
  const auto bytes = static_cast<std::int64_t>(graph::element_bytes(value.dtype));
  return bytes > 0 && static_cast<std::int64_t>(value.bytes.size()) == *count * bytes;
}

// Says which input is missing, or not one of the signature's.
[[noreturn]] void refuse(std::string_view signature, std::span<const SignatureInput> wanted,
                         const Values& given) {
  const auto name_of = [](const SignatureInput& input) { return input.name; };
  std::vector<std::string> names;
  std::ranges::transform(wanted, std::back_inserter(names), name_of);
  for (const auto& [name, value] : given) {
    const auto input = std::ranges::find(wanted, name, &SignatureInput::name);
    if (input == wanted.end()) {
      throw InvalidArgument("the signature {} has no input {}; it has {}", signature, name,
                            fmt::join(names, ", "));
    }
    check_input(name, input->type, input->shape, value);
  }
  for (const auto& name : names) {
    if (!given.contains(name)) {
      throw InvalidArgument("the signature {} needs the input {}", signature, name);
    }
  }
  throw Internal("the inputs of the signature {} are not in order", signature);
}

bool is_floating_point(graph::DataType type) {
  type = graph::without_ref(type);
  return type == graph::DataType::kFloat || type == graph::DataType::kDouble ||
         type == graph::DataType::kHalf || type == graph::DataType::kBfloat16;
}

// The output that is explained.
std::string chosen_output(std::string_view name, const graph::SignatureDef& signature,
                          const std::string& wanted) {
  std::vector<std::string> numbers;
  for (const auto& [key, info] : signature.outputs) {
    if (is_floating_point(info.dtype)) numbers.push_back(key);
  }
  const auto has = [&](const std::string& key) { return std::ranges::count(numbers, key) > 0; };
  if (!wanted.empty()) {
    if (has(wanted)) return wanted;
    throw InvalidArgument("the signature {} has no output {} of floating-point numbers; it has {}",
                          name, wanted,
                          numbers.empty() ? "none" : fmt::format("{}", fmt::join(numbers, ", ")));
  }
  if (numbers.empty()) {
    throw FailedPrecondition(
        "the signature {} has no output of floating-point numbers, and only these can be explained",
        name);
  }
  if (numbers.size() == 1) return numbers.front();
  if (has("logits")) return "logits";
  throw InvalidArgument("say which output of the signature {} is to be explained: {}", name,
                        fmt::join(numbers, ", "));
}

// Whether it makes variables or tables whose names are those of their nodes: these would be others
// where it is written out.
bool has_own_resources(const graph::FunctionDef& function) {
  return std::ranges::any_of(function.nodes, [](const graph::NodeDef& node) {
    const bool is_resource = node.op == "VarHandleOp" || node.op == "VariableV2" ||
                             node.op == "Variable" || node.op.find("HashTable") != node.op.npos;
    return is_resource && graph::attr_or<std::string>(node, "shared_name", "").empty();
  });
}

void check_one_row(const Values& inputs) {
  for (const auto& [name, value] : inputs) {
    const auto shape = shape_of(value);
    if (shape.empty() || shape[0] == 1) continue;
    throw InvalidArgument("the input {} has {} rows; one row is explained at a time", name,
                          shape[0]);
  }
}

}  // namespace

struct ExecutableModel::Impl {
  using Input = SignatureInput;

  // A signature with its plan.
  struct Ready {
    // By name.
    std::vector<Input> inputs;
    std::vector<std::string> outputs;
    Plan plan;
    // Has the plan where it is captured.
    std::unique_ptr<CapturedPlan> captured{};
    // Where requests of some rows can be computed so.
    std::unique_ptr<const ArenaPlan> arena{};
    // Before layers were fused, where requests are explained.
    std::unique_ptr<Plan> explained{};

    // Throws unless they are the signature's.
    void check(std::string_view signature, const Values& given) const {
      // Both are sorted by name.
      auto next = given.begin();
      for (const Input& input : inputs) {
        if (next == given.end() || next->first != input.name) refuse(signature, inputs, given);
        check_input(input.name, input.type, input.shape, next->second);
        ++next;
      }
      if (next != given.end()) refuse(signature, inputs, given);
    }

    // The inputs are checked.
    static Slots arguments_of(const Values& given) {
      Slots arguments;
      arguments.reserve(given.size());
      for (const auto& [name, value] : given) arguments.push_back(to_slot(value));
      return arguments;
    }

    // Nothing where the plan is to be run. The inputs are checked.
    std::optional<Values> run_in_arena(const Values& given, Budget& budget) const {
      if (arena == nullptr) return std::nullopt;
      ArenaRun run(*arena);
      for (const auto& [name, value] : given) {
        if (!run.add(value)) return std::nullopt;
      }
      if (!run.run(budget)) return std::nullopt;
      Values answer;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        answer.emplace_hint(answer.end(), outputs[i], run.result(i));
      }
      return answer;
    }
    const Plan& any_plan() const { return captured ? captured->plan() : plan; }
    Slots run(Slots arguments, Budget& budget) const {
      return captured ? captured->run(std::move(arguments), budget)
                      : plan.run(std::move(arguments), budget);
    }
  };

  graph::MetaGraph meta;
  LoadOptions options;
  Resources resources;
  // While the model is loaded.
  LaidOutLayers layers;
  std::map<std::string, graph::SignatureDef, std::less<>> signatures;
  std::map<std::string, Ready, std::less<>> ready;

  const Ready& find(std::string_view signature) const {
    const auto found = ready.find(signature);
    if (found != ready.end()) return found->second;
    throw NotFound("there is no signature {}; there are {}", signature, keys_of(ready));
  }

  bool captures() const { return options.capture && options.device.is_cuda(); }

  Planner planner(const graph::GraphDef& graph, const Path& dir, Budget& budget) {
    return Planner({.graph = graph,
                    .ops = OpTable::standard(),
                    .device = options.device,
                    .resources = resources,
                    .budget = budget,
                    .variables_prefix = dir.empty() ? Path() : graph::variables_prefix(dir),
                    .assets_dir = dir.empty() ? Path() : dir / "assets",
                    .layers = options.fuse_layers ? &layers : nullptr,
                    .captures = captures()});
  }

  void add_signature(Planner& planner, const std::string& name,
                     const graph::SignatureDef& signature) {
    Ready made;
    std::vector<std::string> feeds;
    std::vector<std::string> fetches;
    for (const auto& [key, info] : signature.inputs) {
      feeds.push_back(tensor_name(info, key));
      made.inputs.push_back({.name = key,
                             .type = info.dtype,
                             .shape = options.declared_shapes
                                          ? info.shape
                                          : placeholder_shape(meta.graph, feeds.back())});
    }
    for (const auto& [key, info] : signature.outputs) {
      made.outputs.push_back(key);
      fetches.push_back(tensor_name(info, key));
    }
    made.plan = planner.plan(feeds, fetches, {});
    ready.emplace(name, std::move(made));
    signatures.emplace(name, signature);
  }

  void add_signatures(Planner& planner) {
    for (const auto& name : options.signatures) graph::find_signature(meta, name);
    for (const auto& [name, signature] : meta.signatures) {
      const bool wanted =
          options.signatures.empty() || std::ranges::count(options.signatures, name) > 0;
      if (!wanted || name.starts_with(kInternalSignatures)) continue;
      try {
        add_signature(planner, name, signature);
      } catch (Error& error) {
        error.add_context(fmt::format("signature {}", name));
        throw;
      }
    }
  }

  // Gradients are not computed through calls of functions, which exports of TensorFlow 2 are made
  // of. Where they cannot be written out, explain() says which call is in its way.
  void plan_explained(const Path& dir, Budget& budget) {
    if (!options.explain || meta.graph.functions.empty()) return;
    if (std::ranges::any_of(meta.graph.functions, has_own_resources)) return;
    try {
      graph::check_graph(meta.graph);
      const graph::MetaGraph flat = graph::inline_functions(meta);
      Planner flat_planner = planner(flat.graph, dir, budget);
      for (auto& [name, one] : ready) {
        const graph::SignatureDef& signature = graph::find_signature(flat, name);
        std::vector<std::string> feeds;
        std::vector<std::string> fetches;
        for (const auto& [key, info] : signature.inputs) feeds.push_back(info.name);
        for (const auto& [key, info] : signature.outputs) fetches.push_back(info.name);
        one.explained = std::make_unique<Plan>(flat_planner.plan(feeds, fetches, {}));
      }
    } catch (const Error& error) {
      log::debug("functions are not written out for explanations: {}", error.what());
      for (auto& item : ready) item.second.explained.reset();
    }
  }

  // Steps that explain() goes through.
  void rewrite_explained(Ready& one, Budget& budget) const {
    if (!options.explain) return;
    if (one.explained == nullptr) {
      one.explained = std::make_unique<Plan>(one.plan);
    } else {
      one.explained->fold(!one.explained->may_assign(), budget);
      one.explained->merge();
    }
    one.explained->forget_nodes();
  }

  void restore(Planner& planner, const Path& dir, Budget& budget) {
    if (dir.empty()) return;
    const Path prefix = graph::variables_prefix(dir);
    if (!file_exists(Path(prefix.string() + ".index"))) return;
    if (meta.saver && !meta.saver->restore_op.empty()) {
      planner.plan({meta.saver->filename_tensor}, {}, {meta.saver->restore_op})
          .run({StringTensor({prefix.string()}, {})}, budget);
      return;
    }
    // Without a saver variables have the names of their tensors.
    const auto bundle = BundleReader::inside(dir, graph::variables_prefix({}));
    for (const auto& [name, variable] : resources.variables()) {
      Value value = read_value(bundle, name);
      if (auto* tensor = std::get_if<at::Tensor>(&value)) *tensor = tensor->to(options.device);
      variable->assign(std::move(value));
    }
  }

  // Files that are copied one by one are no model before all of them are there. Those of a bundle
  // are checked as they are read.
  void check_whole(const Path& dir) const {
    if (dir.empty()) return;
    const Path index = graph::variables_prefix(dir).string() + ".index";
    const bool restores = meta.saver && !meta.saver->restore_op.empty();
    const bool assigns =
        std::ranges::any_of(ready, [](const auto& item) { return item.second.plan.may_assign(); });
    if ((!restores && assigns) || file_exists(index)) return;
    for (const auto& [name, variable] : resources.variables()) {
      if (variable->has_value()) continue;
      throw NotFound("there is no file {}, which has the values of the variable {}; copy it too",
                     index.string(), name);
    }
  }

  void check_assets(const Path& dir) const {
    if (dir.empty()) return;
    for (const auto& asset : graph::asset_files(meta)) {
      const Path file = graph::asset_path(dir, asset.filename);
      if (file_exists(file)) continue;
      throw NotFound("there is no file {}, which the graph reads; copy it too", file.string());
    }
  }

  // Computes values once that no request changes, and joins steps that belong together.
  void rewrite(Budget& budget) {
    const auto assigns = [](const auto& item) { return item.second.plan.may_assign(); };
    const auto fills = [](const auto& item) { return item.second.plan.may_fill_tables(); };
    const bool stay = std::ranges::none_of(ready, assigns);
    // Bodies of functions are not looked at; plans that call some may assign.
    const bool tables_stay = stay && std::ranges::none_of(ready, fills);
    for (auto& [name, one] : ready) {
      one.plan.fold(stay, budget);
      one.plan.merge();
      rewrite_explained(one, budget);
      if (options.fuse_layers) one.plan.fuse(layers, budget);
      if (options.arena) one.arena = ArenaPlan::make(one.plan, tables_stay);
      if (!captures()) {
        one.plan.forget_nodes();
      } else {
        capture(name, one, stay);
      }
    }
    layers = {};
  }

  void capture(const std::string& name, Ready& one, bool variables_stay) {
    std::string obstacle = "variables change";
    if (variables_stay) {
      one.captured = std::make_unique<CapturedPlan>(
          std::move(one.plan),
          CapturedPlan::Options{
              .name = "signature " + name, .device = options.device, .limits = options.limits});
      obstacle = one.captured->obstacle();
    }
    if (obstacle.empty()) return;
    log::info("signature {} is not captured as CUDA graphs: {}", name, obstacle);
  }

  void initialize(Planner& planner, const Path& dir, Budget& budget) {
    const std::string op = graph::init_op(meta);
    if (op.empty()) return;
    std::vector<std::string> feeds;
    Slots values;
    if (!dir.empty()) {
      for (const auto& asset : graph::asset_files(meta)) {
        feeds.push_back(asset.tensor.name);
        values.emplace_back(StringTensor({graph::asset_path(dir, asset.filename).string()}, {}));
      }
    }
    planner.plan(feeds, {}, {op}).run(std::move(values), budget);
  }
};

ExecutableModel::ExecutableModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExecutableModel::~ExecutableModel() = default;
ExecutableModel::ExecutableModel(ExecutableModel&&) noexcept = default;
ExecutableModel& ExecutableModel::operator=(ExecutableModel&&) noexcept = default;

ExecutableModel ExecutableModel::load(const Path& dir, const LoadOptions& options) {
  try {
    graph::SavedModel model = graph::read_saved_model(dir);
    return from(graph::find_meta_graph(model, options.tags), dir, options);
  } catch (Error& error) {
    error.add_context(fmt::format("loading {}", dir.string()));
    throw;
  }
}

ExecutableModel ExecutableModel::from(graph::MetaGraph meta, const Path& dir,
                                      const LoadOptions& options) {
  const at::NoGradGuard no_grad;
  auto impl = std::make_unique<Impl>();
  impl->meta = std::move(meta);
  graph::add_default_attrs(impl->meta.graph);
  impl->options = options;
  Budget budget(options.limits, options.memory.get());
  Planner planner = impl->planner(impl->meta.graph, dir, budget);
  impl->add_signatures(planner);
  impl->plan_explained(dir, budget);
  impl->check_assets(dir);
  impl->restore(planner, dir, budget);
  impl->initialize(planner, dir, budget);
  impl->check_whole(dir);
  impl->rewrite(budget);
  // The plans hold what they need of the graph, whose constants would be here twice.
  impl->meta = {};
  return ExecutableModel(std::move(impl));
}

const std::map<std::string, graph::SignatureDef, std::less<>>& ExecutableModel::signatures() const {
  return impl_->signatures;
}

std::vector<std::string> ExecutableModel::planned_operations(std::string_view signature) const {
  return impl_->find(signature).any_plan().operations();
}

std::size_t ExecutableModel::captured_graphs(std::string_view signature) const {
  const Impl::Ready& ready = impl_->find(signature);
  return ready.captured ? ready.captured->graphs() : 0;
}

bool ExecutableModel::has_arena(std::string_view signature) const {
  return impl_->find(signature).arena != nullptr;
}

std::optional<TensorValues> ExecutableModel::run_in_arena(std::string_view signature,
                                                          const TensorValues& inputs) const {
  const Impl::Ready& ready = impl_->find(signature);
  if (ready.arena == nullptr || inputs.size() != ready.inputs.size()) return std::nullopt;
  ArenaRun run(*ready.arena);
  auto given = inputs.begin();
  for (const Impl::Input& input : ready.inputs) {
    if (given->first != input.name || !fits_input(input, given->second) ||
        !run.add(given->second)) {
      return std::nullopt;
    }
    ++given;
  }
  const at::NoGradGuard no_grad;
  Budget budget(impl_->options.limits, impl_->options.memory.get());
  if (!run.run(budget)) return std::nullopt;
  TensorValues outputs;
  outputs.reserve(ready.outputs.size());
  for (std::size_t i = 0; i < ready.outputs.size(); ++i) {
    outputs.emplace(ready.outputs[i], run.tensor_result(i));
  }
  return outputs;
}

Values ExecutableModel::run(std::string_view signature, const Values& inputs) const {
  const Impl::Ready& ready = impl_->find(signature);
  ready.check(signature, inputs);
  const at::NoGradGuard no_grad;
  Budget budget(impl_->options.limits, impl_->options.memory.get());
  if (auto answer = ready.run_in_arena(inputs, budget)) return std::move(*answer);
  Slots arguments = Impl::Ready::arguments_of(inputs);
  const Slots results = ready.run(std::move(arguments), budget);
  Values outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    try {
      Value value = value_of(results[i], i);
      auto* tensor = std::get_if<at::Tensor>(&value);
      if (tensor != nullptr && !tensor->is_cpu()) *tensor = tensor->cpu();
      outputs.emplace(ready.outputs[i], std::move(value));
    } catch (Error& error) {
      error.add_context(fmt::format("output {}", ready.outputs[i]));
      throw;
    }
  }
  return outputs;
}

Explanation ExecutableModel::explain(std::string_view signature, const Values& inputs,
                                     const ExplainOptions& options,
                                     const std::optional<Values>& baseline) const {
  const Impl::Ready& ready = impl_->find(signature);
  if (ready.explained == nullptr) {
    throw FailedPrecondition("the model was loaded without what explanations need");
  }
  options.check();
  ready.check(signature, inputs);
  check_one_row(inputs);
  GradientPath::Request request{.arguments = Impl::Ready::arguments_of(inputs)};
  for (const Impl::Input& input : ready.inputs) request.names.push_back(input.name);
  if (baseline) {
    try {
      ready.check(signature, *baseline);
      check_one_row(*baseline);
    } catch (Error& error) {
      error.add_context("the baseline");
      throw;
    }
    request.baseline = Impl::Ready::arguments_of(*baseline);
  }
  request.output =
      chosen_output(signature, impl_->signatures.find(signature)->second, options.output);
  request.fetch = static_cast<std::size_t>(std::ranges::find(ready.outputs, request.output) -
                                           ready.outputs.begin());
  const std::string output = request.output;
  Budget budget(impl_->options.limits, impl_->options.memory.get());
  GradientPath path(*ready.explained, std::move(request), budget);
  Explanation made = integrate_gradients(path, options);
  made.output = output;
  return made;
}

std::vector<std::string> supported_operations() { return OpTable::standard().names(); }

std::string supported_operations_page() {
  const auto names = supported_operations();
  std::string page = fmt::format(
      "# Operations that SavedModels may use\n\n"
      "`ExecutableModel` runs these {} operations of TensorFlow; a model whose signatures need "
      "another is refused when it is\nloaded, by the name of operation and node. This page is "
      "written from the table in the code.\n\n",
      names.size());
  for (const auto& name : names) page += fmt::format("- `{}`\n", name);
  return page;
}

}  // namespace muster::executor
