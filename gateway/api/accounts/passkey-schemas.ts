import { Type, type Static } from 'typebox'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { base64UrlPattern, keyNamePattern } from '../../http/pattern-rules.js'
import { trimmed } from '../../http/normalize.js'
import { oneOf, TimeSchema, timeSchema } from '../../http/schema.js'

const base64Url = (maxLength: number) => Type.String({ pattern: base64UrlPattern, maxLength })

const credential = {
  id: base64Url(1400),
  rawId: base64Url(1400),
  type: oneOf(['public-key']),
}
const clientDataJSON = base64Url(8192)

/** JSON form of a new credential: `PublicKeyCredential.toJSON()`. All other fields are ignored. */
export const NewCredentialSchema = Type.Object(
  {
    ...credential,
    response: Type.Object({
      clientDataJSON,
      attestationObject: base64Url(8192),
      transports: Type.Optional(Type.Array(Type.String({ maxLength: 32 }), { maxItems: 16 })),
    }),
  },
  {
    title: 'NewPasskeyCredential',
    description: 'Result of `navigator.credentials.create()`, as `toJSON()` returns it.',
  },
)

/** JSON form of a signed challenge. */
export const SignedChallengeSchema = Type.Object(
  {
    ...credential,
    response: Type.Object({
      clientDataJSON,
      authenticatorData: base64Url(8192),
      signature: base64Url(2048),
      userHandle: Type.Optional(base64Url(128)),
    }),
  },
  { title: 'PasskeySignature', description: 'Result of `navigator.credentials.get()`, as `toJSON()` returns it.' },
)

const exampleIds = { id: 'q83vEjRWeJA', rawId: 'q83vEjRWeJA', type: 'public-key' } as const
const exampleClientData = 'eyJ0eXBlIjoid2ViYXV0aG4uZ2V0In0'
export const exampleNewCredential = {
  ...exampleIds,
  response: { clientDataJSON: exampleClientData, attestationObject: 'o2NmbXRkbm9uZQ' },
}
export const exampleSignature = {
  ...exampleIds,
  response: { clientDataJSON: exampleClientData, authenticatorData: 'SZYN5YgOjGh0NBcP', signature: 'MEUCIQDx' },
}

export const PasskeyNameSchema = Type.String({
  ...trimmed,
  minLength: 1,
  maxLength: 64,
  pattern: keyNamePattern,
  description: 'Name of the passkey, unique among those of the account: at most 64 printable characters on one line.',
})

/** Options for the browser. Their form is defined by WebAuthn. */
export const PasskeyOptionsSchema = Type.Object(
  { challenge: Type.String() },
  {
    title: 'PasskeyOptions',
    additionalProperties: true,
    description:
      'Options in the JSON form of WebAuthn, for `PublicKeyCredential.parseCreationOptionsFromJSON` or `parseRequestOptionsFromJSON`. The challenge is valid for 5 minutes and can be used once.',
  },
)
export type PasskeyOptionsRow = Static<typeof PasskeyOptionsSchema>

export const PasskeySchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    created_at: TimeSchema,
    last_used: timeSchema('the passkey was last used', 'it was never used'),
  },
  { title: 'Passkey' },
)

export function registrationOf({
  id,
  rawId,
  type,
  response: { clientDataJSON: clientData, attestationObject, transports = [] },
}: Static<typeof NewCredentialSchema>): RegistrationResponseJSON {
  const response = { clientDataJSON: clientData, attestationObject, transports }
  return { id, rawId, type, response, clientExtensionResults: {} } as RegistrationResponseJSON
}

export function signatureOf({
  id,
  rawId,
  type,
  response: { userHandle, ...signed },
}: Static<typeof SignedChallengeSchema>): AuthenticationResponseJSON {
  const response = { ...signed, ...(userHandle !== undefined && { userHandle }) }
  return { id, rawId, type, response, clientExtensionResults: {} }
}
