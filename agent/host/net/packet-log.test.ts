import { expect } from 'chai'
import { parseFlow } from './flows-of.js'
import { parseSample } from './packet-log.js'

describe('lines of the abuse sensor', () => {
  const base = { guest: '10.0.0.2', target: '198.18.0.1', count: 3 }
  for (const [line, sample] of [
    ['o 10.0.0.2 198.18.0.1 tcp 80 3', { ...base, kind: 'opened', protocol: 'tcp', port: 80 }],
    ['r 10.0.0.2 198.18.0.1 udp 53 3', { ...base, kind: 'refused', protocol: 'udp', port: 53 }],
    ['s 10.0.0.2 198.18.0.1 3333 3', { ...base, kind: 'stratum', port: 3333 }],
    ['n 10.0.0.2 198.18.0.1 443 3', { ...base, kind: 'pool', port: 443 }],
    ['x 10.0.0.2 198.18.0.1 1080 socks5 3', { ...base, kind: 'proxy', port: 1080, way: 'socks5' }],
    ['? 10.0.0.2', undefined],
  ] as const)
    it(`are ${sample === undefined ? 'ignored without a sample' : `parsed as a sample of the kind "${sample.kind}"`}: ${line}`, () => {
      const [word = '', ...rest] = line.split(' ')
      expect(parseSample(word, rest)).to.deep.equal(sample)
    })

  for (const [line, state, unreplied] of [
    ['6 10.0.0.2 198.18.0.1 4000 80 t1 116 60 0', 'SYN_SENT', true],
    ['6 10.0.0.2 198.18.0.1 4000 80 t7 116 394 1892', 'TIME_WAIT', false],
    ['17 10.0.0.2 198.18.0.1 4000 53 unreplied 27 28 0', 'UNREPLIED', true],
    ['58 fd00::2 fd00::1 0 0 replied 27 28 28', 'REPLIED', false],
  ] as const)
    it(`are parsed as a flow in the state ${state}: ${line}`, () =>
      expect(parseFlow(line)).to.include({ state, unreplied }))

  it('are ignored if they contain no flow', () => {
    for (const line of ['', 'more 7']) expect(parseFlow(line)).to.equal(undefined)
  })
})
