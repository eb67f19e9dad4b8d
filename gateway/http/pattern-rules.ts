import { usernamePattern, usernameRule } from '../accounts/account-record.js'
import { descriptionPattern, templateIdPattern, timeOfDayPattern, uuidPattern } from '../../shared/guest-rules.js'
import { imageNamePattern, imageUrlPattern, imageWordPattern, sha256Pattern } from '../../shared/image-rules.js'
import { suspensionTextPattern } from '../../shared/suspension-rules.js'

/** A word that may also be empty. */
export const optionalTemplateIdPattern = `${templateIdPattern}|^$`
/** Names of API keys: at least one visible character, and nothing that breaks a line of a log or list. */
export const keyNamePattern = '^(?=.*\\S)[^\\p{C}\\p{Zl}\\p{Zp}]*$'
export const webhookNamePattern = '^[^\\p{C}\\p{Zl}\\p{Zp}]*$'
/** Names of network interfaces; empty: the default interface. */
export const interfacePattern = '^[^\\s/\\u0000-\\u001f]{0,15}$'
export const sessionIdPattern = '^[0-9a-f]{32}$'

const templateId = 'must be an id of lower-case letters, digits, "." and "-"'
const printableLine = 'must be printable characters on one line'

/** The rule of each pattern in request schemas, as error messages state it. */
const rules: Readonly<Record<string, string>> = {
  [usernamePattern]: usernameRule,
  [templateIdPattern]: templateId,
  [optionalTemplateIdPattern]: templateId,
  [uuidPattern]: 'must be a uuid in lower case',
  [timeOfDayPattern]: 'must be a time of day in the form HH:MM',
  [descriptionPattern]: `${printableLine}, at most 200`,
  [suspensionTextPattern]: `${printableLine}, at most 500`,
  [imageNamePattern]: `${printableLine}, 1 to 100`,
  [imageWordPattern]: 'must be 1 to 64 letters, digits, ".", "_", "+" or "-", starting with a letter or digit',
  [imageUrlPattern]: 'must be an http or https URL, or upload:NAME',
  [sha256Pattern]: 'must be 64 hexadecimal digits',
  [keyNamePattern]: `${printableLine}, with at least one visible character`,
  [webhookNamePattern]: printableLine,
  [interfacePattern]: 'must be the name of an interface, at most 15 characters',
  [sessionIdPattern]: 'must be 32 hexadecimal digits in lower case',
}

/** @returns undefined for a pattern that no request may contain */
export function ruleOfPattern(pattern: string): string | undefined {
  return rules[pattern]
}
