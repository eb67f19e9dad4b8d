import { expect } from 'chai'
import { formatCpuList, parseCpuList } from './cpu-list.js'

describe('CPU lists', () => {
  for (const [text, cpus] of [
    ['0', [0]],
    ['0-3', [0, 1, 2, 3]],
    ['0-1,4,6-7', [0, 1, 4, 6, 7]],
    ['', []],
  ] as const)
    it(`do not change when they are parsed and formatted: "${text}"`, () => {
      expect(parseCpuList(`${text}\n`)).to.deep.equal(cpus)
      expect(formatCpuList(cpus)).to.equal(text)
    })

  it('are sorted when they are parsed, and are empty if the text is invalid', () => {
    expect(parseCpuList('4,0-1,1')).to.deep.equal([0, 1, 4])
    for (const text of ['x', '-1', '3-1', '0-999999']) expect(parseCpuList(text), text).to.deep.equal([])
  })
})
