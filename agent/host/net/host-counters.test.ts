import { expect } from 'chai'
import { readHostCounters, sumDisks } from './host-counters.js'

describe('counters of the host', () => {
  it('count each sector of a whole disk as 512 bytes, and do not count partitions in addition', () => {
    const text = [
      '   7       0 loop0 13688 109 4523760 16045 180733 89819 16020424 200230 0 37572 230468',
      ' 254       0 vda 10 20 2 84279 30 40 4 166986 0 51320 264238',
      ' 254       1 vda1 10 20 2 84279 30 40 4 166986 0 51320 264238',
      '   8       0 sda 1 2 6 4 5 6 8 8 0 9 10',
      '',
    ].join('\n')
    expect(sumDisks(text, new Set(['vda', 'sda', 'sdb']))).to.deep.equal({
      readBytes: 4096,
      writeBytes: 6144,
    })
  })

  it('do not decrease when they are read again', () => {
    const [first, second] = [readHostCounters(), readHostCounters()]
    for (const name of ['cpuUsec', 'rxBytes', 'txBytes', 'readBytes', 'writeBytes'] as const) {
      expect(first[name], name).to.be.at.least(0)
      expect(second[name], name).to.be.at.least(first[name] ?? NaN)
    }
    expect(first.cpuUsec).to.be.above(0)
  })
})
