import { expect } from 'chai'
import { parseLxcLog } from './lxc.js'

describe('the search for the reasons of a failure in an LXC log', () => {
  const line = (reason: string): string =>
    `lxc-start bt-1 20261121102402.664 ERROR    start - ../src/lxc/start.c:lxc_spawn:1788 - ${reason}\n`

  for (const [name, text, expected] of [
    ['returns nothing for an empty log', '', ''],
    ['returns the reasons in order, and each reason only once', line('a') + line('b') + line('a'), 'a; b'],
    [
      'omits lines with a level other than ERROR, and lines in another format',
      `x\n${line('a').replace('ERROR', 'WARN ')}`,
      '',
    ],
    ['returns at most four reasons', ['a', 'b', 'c', 'd', 'e'].map(line).join(''), 'a; b; c; d'],
  ] as const)
    it(name, () => expect(parseLxcLog(text)).to.equal(expected))
})
