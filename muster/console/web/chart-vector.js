// A chart as an SVG file: for a paper or slides, on white whatever colours the page has.

const kLegendLine = 18;
const kTitleHeight = 28;

const escaped = (text) => String(text).replace(/[<>&"]/g, (one) => `&#${one.charCodeAt(0)};`);
const rounded = (value) => Number(value.toFixed(2));

/** {title, width, height, margin, curves, x, y, xTicks, yTicks}: curves as <line-chart> draws them, scales, and ticks {at, text}. */
export function vectorOf({title, width, height, margin, curves, x, y, xTicks, yTicks}) {
  const [left, right, top, bottom] = [margin.left, width - margin.right, margin.top, height - margin.bottom];
  const whole = kTitleHeight + height + 12 + kLegendLine * curves.length;
  const legend = curves.map((curve, i) => {
    const at = height + 12 + kLegendLine * i;
    return `<path d="M${left},${at}h18" stroke="${escaped(curve.color)}" stroke-width="2"${dashes(curve)}/>` +
      `<text x="${left + 26}" y="${at + 4}">${escaped(curve.name)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${whole}" viewBox="0 0 ${width} ${whole}" font-family="sans-serif" font-size="11" fill="#333">
<title>${escaped(title)}</title>
<rect width="${width}" height="${whole}" fill="#fff"/>
<text x="12" y="18" font-size="13" font-weight="600">${escaped(title)}</text>
<g transform="translate(0 ${kTitleHeight})">
<clipPath id="area"><rect x="${left}" y="${top}" width="${right - left}" height="${bottom - top}"/></clipPath>
${yTicks.map(({at, text}) => `<path d="M${left},${rounded(at)}H${right}" stroke="#ddd"/><text x="${left - 7}" y="${rounded(at) + 4}" text-anchor="end">${escaped(text)}</text>`).join('\n')}
${xTicks.map(({at, text}) => `<text x="${rounded(at)}" y="${bottom + 17}" text-anchor="middle">${escaped(text)}</text>`).join('\n')}
<g clip-path="url(#area)" fill="none" stroke-linejoin="round">
${curves.map((curve) => bandOf(curve, x, y) + `<path d="${pathOf(curve.xs, curve.smooth, x, y)}" stroke="${escaped(curve.color)}" stroke-width="1.6"${dashes(curve)}/>`).join('\n')}
</g>
${legend.join('\n')}
</g>
</svg>
`;
}

const dashes = (curve) => curve.dashed ? ' stroke-dasharray="5 4"' : '';

function bandOf({xs, low, high, color}, x, y) {
  if (!low) return '';
  const side = (values) => xs.map((one, i) => `${rounded(x.at(one))},${rounded(y.at(y.isLog ? Math.max(y.low, values[i]) : values[i]))}`);
  return `<path d="M${[...side(low), ...side(high).reverse()].join('L')}Z" fill="${escaped(color)}" fill-opacity="0.16" stroke="none"/>`;
}

// A line with a gap where there is no value.
function pathOf(xs, values, x, y) {
  let isDown = false;
  return xs.map((one, i) => {
    const value = values[i];
    const isSeen = value !== null && !(y.isLog && value <= 0);
    const part = isSeen ? `${isDown ? 'L' : 'M'}${rounded(x.at(one))},${rounded(y.at(value))}` : '';
    isDown = isSeen;
    return part;
  }).join('');
}
