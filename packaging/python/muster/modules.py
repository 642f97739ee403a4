"""Modules of PyTorch, trained by muster through TorchScript. PyTorch is imported when one of these is called."""
import os
import tempfile

from muster._muster import load_checkpoint, torch_script_model


def torch_model(module, example=None, **options):
    """The model of an Estimator out of a torch.nn.Module, which begins with the values that the module has now.

    It is scripted, or traced with the tensors `example`. Options are those of torch_script_model(): inputs, output,
    fixed_modes, draws_random_numbers.
    """
    import torch
    script = torch.jit.script(module) if example is None else torch.jit.trace(module, example)
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, type(module).__name__ + ".pt")
        script.save(file)
        return torch_script_model(file, **options)


def load_trained(module, checkpoint):
    """Copies the values of a checkpoint, by default a model folder's latest, into the module, in place, and returns it."""
    import torch
    tensors = load_checkpoint(checkpoint)
    state = module.state_dict()
    missing = [name for name in state if name.replace(".", "/") not in tensors]
    if missing:
        raise KeyError(f"{checkpoint} has no {', '.join(missing)}")
    with torch.no_grad():
        for name, value in state.items():
            value.copy_(torch.from_numpy(tensors[name.replace(".", "/")].copy()))
    return module
