import { expect } from 'chai'
import { parseNetDev, parseProcessStat } from './proc.js'

describe('parseProcessStat', () => {
  const rest = '7 9 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1'
  for (const [name, text, expected] of [
    ['plain', `12 (init) S ${rest}`, { pid: 12, command: 'init', state: 'S', parentPid: 7, startTime: 4242 }],
    [
      'a name that looks like the rest',
      `12 (a) R 1 (b) Z ${rest}`,
      { pid: 12, command: 'a) R 1 (b', state: 'Z', parentPid: 7, startTime: 4242 },
    ],
  ] as const)
    it(name, () => expect(parseProcessStat(text)).to.deep.equal(expected))
})

describe('parseNetDev', () => {
  it('reads names that touch the first number', () => {
    const text = ['Inter-|', ' face |', '  bt17:100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0', ''].join('\n')
    expect([...parseNetDev(text)]).to.deep.equal([['bt17', { rxBytes: 100, txBytes: 200 }]])
  })
})
