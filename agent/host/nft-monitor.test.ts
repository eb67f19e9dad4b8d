import { expect } from 'chai'
import { MonitorParser } from './nft-monitor.js'

describe('nft monitor', () => {
  const by = (pid: number): string => `# new generation 7 by process ${pid} (nft)`
  for (const [name, lines, found] of [
    ['a table deleted', ['delete table ip berth', by(5)], [5]],
    ['a rule added', ['add rule inet berth input accept', by(5)], [5]],
    ['an element', ['add element ip berth ports { tcp . 1 : 10.0.0.1 . 2 }', by(5)], [5]],
    ['another table', ['add rule inet berth2 input accept', 'add table ip filter', by(5)], []],
    ['a family that is not ours', ['add table arp berth', by(5)], []],
    ['one after another', ['add table ip x', by(5), 'delete table ip berth', by(6), by(7)], [6]],
    ['lost events', ['# ERROR: We lost some netlink events!'], [0]],
    ['the name within a comment', ['add rule ip x y comment "add table ip berth"', by(5)], []],
  ] as [string, string[], number[]][])
    it(name, () => {
      const parser = new MonitorParser('berth')
      expect(lines.flatMap((line) => parser.take(line)?.pid ?? [])).to.deep.equal(found)
    })
})
