import { expect } from 'chai'
import { moduleUrl } from '../../test/support/programs.js'
import { apiDocument } from '../lib/api-document.js'
import { synonymsIn } from './glossary.js'

describe('the glossary check', () => {
  for (const [audience, text, count] of [
    ['api', 'Starts the machine.', 1],
    ['api', 'Starts a virtual machine.', 0],
    ['api', 'Message for the customer.', 1],
    ['api', 'Restarts the guest.', 1],
    ['api', 'Needs the guest agent and `guest`.', 0],
    ['api', 'I/O operations per second.', 0],
    ['panel', 'Deletes the container.', 1],
    ['panel', 'Requires the scope container:create.', 0],
    ['panel', 'Message for the customer.', 0],
    ['panel', 'Sets the warm stand-by.', 1],
    ['panel', 'Sets the warm standby.', 0],
  ] as const)
    it(`${count === 0 ? 'accepts' : 'finds a wrong term in'} "${text}" as a text of the ${audience === 'api' ? 'API document' : 'panel'}`, () =>
      expect(synonymsIn(text, audience)).to.have.length(count))

  it('finds no wrong term in the API document', () => {
    const texts = [...new Set(textsOf(apiDocument()))]
    expect(texts).to.have.length.greaterThan(500)
    expect(texts.flatMap((text) => synonymsIn(text, 'api'))).to.deep.equal([])
  })

  it('finds no wrong term in the English texts of the panel', async () => {
    const { en } = (await import(moduleUrl('panel/src/i18n/en/index.ts'))) as { en: Record<string, string> }
    expect(Object.values(en).flatMap((text) => synonymsIn(text, 'panel'))).to.deep.equal([])
  })
})

/** Returns all summaries and descriptions in a document. */
function textsOf(node: unknown): string[] {
  if (typeof node !== 'object' || node === null) return []
  return Object.entries(node).flatMap(([key, value]) =>
    typeof value === 'string' && (key === 'summary' || key === 'description') ? [value] : textsOf(value),
  )
}
