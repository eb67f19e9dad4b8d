import { expect } from 'chai'
import { readFleetFile } from './read-file.js'
import { fleetFileText } from './write-file.js'

const text = 'guests:\n  - name: a\n    ports:\n      - guest_port: 80\n---\nguests:\n  - name: "\\e[31m"\n'

describe('the reader of fleet files', () => {
  for (const [name, document, path, place] of [
    ['a field', 0, ['guests', 0, 'name'], 'f.yaml:2:5: guests.0.name: '],
    ['a field in a list', 0, ['guests', 0, 'ports', 0, 'guest_port'], 'f.yaml:4:9: guests.0.ports.0.guest_port: '],
    ['the closest object around a missing field', 0, ['guests', 0, 'image'], 'f.yaml:2:5: guests.0.image: '],
    ['an object in the second document', 1, ['guests', 0], 'f.yaml:7:5: guests.0: '],
    ['a whole document', 1, [], 'f.yaml:6:1: '],
  ] as const)
    it(`finds the position of ${name}`, async () => {
      const file = await readFleetFile('f.yaml', text)
      expect(file.describe({ document, path, message: 'x\u001b' })).to.equal(`${place}x\ufffd`)
    })

  for (const [name, wrong, message] of [
    ['a field that appears twice', 'a: 1\na: 2\n', 'f.yaml:2:1: Map keys must be unique'],
    ['an unclosed list', 'a: [1\n', 'f.yaml:2:1: '],
    ['an unknown alias', 'a: *x\n', 'f.yaml: Unresolved alias'],
    ['aliases that expand to too many values', bomb(), 'f.yaml: Excessive alias count'],
  ] as const)
    it(`refuses ${name}`, async () => {
      const error = await readFleetFile('f.yaml', wrong).catch((cause: Error) => cause)
      expect((error as Error).message).to.contain(message)
    })
})

it('a written fleet file can be read again, and escapes characters that could change the terminal', async () => {
  const content = { guests: [{ name: 'a', note: 'x\u202e\u009b31m\u001b' }] }
  const written = await fleetFileText(content)
  expect(written).not.to.match(/\u202e|\p{Cc}(?<!\n)/u)
  expect((await readFleetFile('f', written)).documents).to.deep.equal([content])
})

function bomb(): string {
  const levels = Array.from({ length: 9 }, (_, level) => `a${level + 1}: &a${level + 1} [${`*a${level}, `.repeat(9)}]`)
  return ['a0: &a0 x', ...levels].join('\n')
}
