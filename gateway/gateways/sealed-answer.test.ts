import { expect } from 'chai'
import { generateKeyPairSync } from 'node:crypto'
import type { BerthError } from '../../shared/errors.js'
import { encodePublicKey, openAnswer, sealAnswer } from './sealed-answer.js'

const receiver = generateKeyPairSync('x25519')
const other = generateKeyPairSync('x25519')
const answer = sealAnswer(encodePublicKey(receiver.publicKey), 'the secret')

const codeOf = (work: () => unknown): string => {
  try {
    work()
    return 'accepted'
  } catch (error) {
    return (error as BerthError).code
  }
}

describe('the encrypted answer to a joining gateway', () => {
  it('can be read with the private key of the receiver', () => {
    expect(openAnswer(receiver.privateKey, answer)).to.equal('the secret')
  })

  it('cannot be read with another private key', () => {
    expect(codeOf(() => openAnswer(other.privateKey, answer))).to.equal('internal_error')
  })

  it('cannot be decrypted if the sender’s public key in it was replaced', () => {
    const changed = { ...answer, public_key: encodePublicKey(other.publicKey) }
    expect(codeOf(() => openAnswer(receiver.privateKey, changed))).to.equal('internal_error')
  })

  for (const [what, key] of [
    ['an empty text', ''],
    ['a text that is not a key', 'AAAA'],
    ['a key of another type', encodePublicKey(generateKeyPairSync('ed25519').publicKey)],
  ])
    it(`is not created if the public key of the receiver is ${what}`, () => {
      expect(codeOf(() => sealAnswer(key!, 'text'))).to.equal('invalid_field')
    })
})
