struct SpiralNet : muster::Model {
  torch::Tensor forward(const muster::Features& features) override;
};
extern muster::InputFn train_input, eval_input;
