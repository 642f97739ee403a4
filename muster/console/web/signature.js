// A model's inputs, as TensorFlow Serving tells them, and a first request that fits.

const kInteger = /^DT_U?INT/;

/** {name: [{name, type, shape}]} by signature, of the answer to /metadata. */
export function signaturesOf(metadata) {
  const found = metadata?.metadata?.signature_def?.signature_def ?? {};
  return Object.fromEntries(Object.entries(found)
    .filter(([, signature]) => Object.keys(signature.inputs ?? {}).length > 0)
    .map(([name, signature]) => [name, Object.entries(signature.inputs).map(([input, info]) => ({
      name: input,
      type: info.dtype,
      shape: (info.tensor_shape?.dim ?? []).map((dim) => Number(dim.size)),
      isScalarOfUnknownRank: info.tensor_shape?.unknown_rank === true,
    }))]));
}

function zeroOf(type) {
  if (type === 'DT_STRING') return '';
  if (type === 'DT_BOOL') return false;
  return kInteger.test(type) ? 0 : 0.0;
}

/** One value of an input, without the dimension of the batch. */
export function exampleOf(input) {
  const sizes = input.shape.slice(1).map((size) => size > 0 ? size : 1);
  return sizes.reduceRight((inner, size) => Array.from({length: size}, () => structuredClone(inner)), zeroOf(input.type));
}

/** Whether an input is a picture of 28 by 28. */
export function isDigit(input) {
  const sizes = input.shape.slice(1).filter((size) => size !== 1);
  return !kInteger.test(input.type) && input.type !== 'DT_STRING' && (sizes.join() === '28,28' || sizes.join() === '784');
}

const kMostSide = 512;

/** The sides of a coloured picture that an input is; null for another input. */
export function pictureSides(input) {
  const [height, width, channels] = input.shape.slice(1);
  const isPicture = input.shape.length === 4 && channels === 3 && input.type !== 'DT_STRING' &&
    height > 1 && height <= kMostSide && width > 1 && width <= kMostSide;
  return isPicture ? {height, width, isBytes: kInteger.test(input.type)} : null;
}

/** The numbers of a picture in the shape of the input. */
export function shaped(pixels, input) {
  const sizes = input.shape.slice(1);
  let at = 0;
  const fill = (place) => place === sizes.length ? pixels[at++] :
    Array.from({length: sizes[place]}, () => fill(place + 1));
  return fill(0);
}

/** A line for a shell that makes the same call. */
export function curlLine(url, body) {
  return `curl -d '${body.replaceAll("'", "'\\''")}' ${url}`;
}
