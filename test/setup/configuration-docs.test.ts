import { expect } from 'chai'
import { parseExample } from '../../scripts/configuration-docs.js'

describe('the generator of docs/configuration.md', () => {
  for (const [name, text, rows] of [
    ['joins the lines of a comment', '# a\n# b\nk: 1\n', [{ key: 'k', meaning: 'a b' }]],
    ['omits a comment that belongs to no key', '# head\n\n# a\nk: 1\n', [{ key: 'k', meaning: 'a' }]],
    [
      'applies a comment also to the following keys without their own comment, but not to a group of keys',
      'g:\n  # x\n  a: 1\n  b: 2\nh: 3\n',
      [
        { key: 'g', meaning: '' },
        { key: 'g.a', meaning: 'x' },
        { key: 'g.b', meaning: 'x' },
        { key: 'h', meaning: 'x' },
      ],
    ],
  ] as const)
    it(name, () => expect(parseExample(text)).to.deep.equal(rows))
})
