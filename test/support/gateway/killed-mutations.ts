import { expect } from 'chai'
import type { KilledGateway } from './killed-gateway.js'

/**
 * The routes that change users, access, TLS and the response to abuse. A test in test/faults calls each of them during
 * kills. test/api/guests/killed-mutations.test.ts compares the list with the table of routes.
 */
export const killedMutations = {
  'accounts-kill': [
    'POST /login',
    'POST /login/otp',
    'POST /logout',
    'POST /setup',
    'POST /admins',
    'POST /account/password',
    'POST /account/totp',
    'POST /account/totp/confirm',
    'POST /account/totp/recovery-codes',
    'DELETE /account/totp',
    'PUT /access-policy',
    'PUT /webssh-origins',
    'PUT /public-url',
    'PUT /branding',
    'PUT /language',
    'PUT /deletion-settings',
    'PUT /port-settings',
    'PUT /security/settings',
  ],
  'people-kill': [
    'PATCH /admins/{id}',
    'DELETE /admins/{id}',
    'POST /account/confirm',
    'DELETE /account/sessions',
    'DELETE /account/sessions/{id}',
    'POST /account/passkeys/begin',
    'POST /account/passkeys',
    'PATCH /account/passkeys/{id}',
    'DELETE /account/passkeys/{id}',
    'POST /login/passkey/begin',
    'POST /login/passkey',
    'POST /login/otp/passkey/begin',
    'POST /login/otp/passkey',
    'POST /account/confirm/passkey/begin',
    'POST /account/confirm/passkey',
    'POST /account/ssh-keys',
    'DELETE /account/ssh-keys/{id}',
    'POST /sub-user/login',
    'DELETE /sub-users/{id}',
    'POST /sub-users/{id}/view',
    'POST /session/return',
    'PUT /login-settings',
    'PUT /account/time-zone',
    'POST /language',
    'POST /security/check',
    'PUT /containers/{id}/security',
  ],
  'sub-users-kill': [
    'POST /sub-user/create',
    'POST /sub-user/access',
    'PATCH /sub-users/{id}',
    'POST /sub-users/{id}/rotate-password',
  ],
  'ssl-kill': ['PUT /ssl'],
} as const

/** Returns the routes that the test must call (see `killedMutations`), but has not called. */
export function findUnasked(test: keyof typeof killedMutations, { asked }: Pick<KilledGateway, 'asked'>): string[] {
  const lines = [...asked]
  return killedMutations[test].filter((name) => {
    const pattern = new RegExp(`^${name.replaceAll(/\{\w+\}/g, '[^/]+')}$`)
    return !lines.some((line) => pattern.test(line))
  })
}

/** Checks that each route of the test was called during the kills. */
export function expectMutationsAsked(test: keyof typeof killedMutations, lab: Pick<KilledGateway, 'asked'>): void {
  expect(findUnasked(test, lab)).to.deep.equal([])
}
