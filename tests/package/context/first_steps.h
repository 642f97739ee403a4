
struct MnistCnn : muster::Model {
  at::Tensor forward(const muster::Features& features) override;
};
extern muster::InputFn train_input, eval_input;
void save(const std::string& position);
