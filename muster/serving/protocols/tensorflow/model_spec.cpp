#include "muster/serving/protocols/tensorflow/model_spec_internal.h"

#include "muster/base/error.h"

namespace muster::serving {

namespace wire = tensorflow::serving;

Call call_of(const wire::ModelSpec& spec, bool given, const Caller& caller) {
  if (!given) throw InvalidArgument("Missing ModelSpec");
  if (spec.name().empty()) throw InvalidArgument("ModelSpec has no name specified.");
  Call call{.model = spec.name(), .entrypoint = caller.entrypoint, .deadline = caller.deadline};
  if (spec.has_version()) call.version.number = spec.version().value();
  if (spec.version_choice_case() == wire::ModelSpec::kVersionLabel) {
    call.version.label = spec.version_label();
  }
  call.version.key = caller.key;
  if (!spec.signature_name().empty()) call.signature = spec.signature_name();
  return call;
}

void write_spec(const ModelVersion& version, const std::string& signature, wire::ModelSpec& out) {
  out.set_name(version.model());
  out.mutable_version()->set_value(version.number());
  out.set_signature_name(signature);
}

}  // namespace muster::serving
