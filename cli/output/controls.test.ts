import { expect } from 'chai'
import { controlFilter } from './controls.js'

describe('the filter for control characters', () => {
  it('keeps line breaks, tabs and characters that are split between two parts', () => {
    const filter = controlFilter()
    const bytes = Buffer.from('a\u001b[2J\u009b\tä\u0007\n')
    const middle = bytes.indexOf('ä') + 1
    expect(filter(bytes.subarray(0, middle)) + filter(bytes.subarray(middle))).to.equal('a[2J\tä\n')
  })
})
