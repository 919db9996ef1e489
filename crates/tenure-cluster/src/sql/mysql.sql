CREATE /*M! OR REPLACE */ PROCEDURE /*!80029 IF NOT EXISTS */ tenure_guard(
    IN a_cluster LONGTEXT CHARACTER SET utf8mb4,
    IN a_election LONGTEXT CHARACTER SET utf8mb4,
    IN a_term BIGINT UNSIGNED
)
    MODIFIES SQL DATA
    -- Its callers need no right to the tables.
    SQL SECURITY DEFINER
    COMMENT 'Tenure: fences a transaction by the term of an election'
main: BEGIN
    DECLARE v_root, v_office_key, v_session_key VARBINARY(2048);
    -- Format, term and session of the holder: as this transaction sees them, and as they are.
    DECLARE v_seen, v_office VARBINARY(25);
    DECLARE v_session BINARY(16);
    DECLARE v_term BIGINT UNSIGNED;
    DECLARE v_cluster VARCHAR(8);
    DECLARE v_found INT;
    DECLARE v_flaw, v_message VARCHAR(128) CHARACTER SET utf8mb4;

    -- Without a transaction there is no savepoint either.
    BEGIN
        DECLARE EXIT HANDLER FOR 1305
            SIGNAL SQLSTATE 'TN002'
                SET MESSAGE_TEXT = 'a guard holds until its transaction ends, and there is none: START TRANSACTION first';
        SAVEPOINT tenure_guard;
        RELEASE SAVEPOINT tenure_guard;
    END;

    -- In a cluster row locks do not reach other nodes, and only rows that changed are compared at commit.
    SELECT MAX(VARIABLE_VALUE) INTO v_cluster
        FROM /*M! information_schema.GLOBAL_VARIABLES */ /*!80000 performance_schema.global_variables */
        WHERE VARIABLE_NAME = 'wsrep_on';

    -- Content of a key is any bytes, of which 0 and 1 are written as two. No name is longer than this, and nothing is cut off.
    IF LENGTH(a_cluster) <= 255 AND LENGTH(a_election) <= 255 THEN
        SET v_root = CONCAT(0x1174656E757265, 0x0011, REPLACE(REPLACE(CAST(a_cluster AS BINARY), 0x01, 0x0102), 0x00, 0x0101), 0x0011),
            v_office_key = CONCAT(
                v_root, 0x656C656374696F6E, 0x0011,
                REPLACE(REPLACE(CAST(a_election AS BINARY), 0x01, 0x0102), 0x00, 0x0101), 0x00
            );
    END IF;

    SELECT LEFT(value, 25) INTO v_seen FROM tenure_kv WHERE name = v_office_key;
    IF v_seen IS NOT NULL THEN
        IF v_cluster = 'ON' THEN
            UPDATE tenure_kv SET weight = weight + 1 WHERE name = v_office_key;
            UPDATE tenure_kv SET weight = weight - 1 WHERE name = v_office_key;
        END IF;
        SELECT LEFT(value, 25) INTO v_office FROM tenure_kv WHERE name = v_office_key LOCK IN SHARE MODE;
    END IF;
    IF v_office IS NULL THEN
        SET v_flaw = 'nobody was ever elected';
    ELSEIF LENGTH(v_office) < 25 OR LEFT(v_office, 1) <> 0x01 THEN
        SIGNAL SQLSTATE 'TN002' SET MESSAGE_TEXT = 'tenure_guard does not know this format: make it anew, with the release of Tenure that runs';
    ELSE
        SET v_term = CONV(HEX(SUBSTRING(v_office, 2, 8)), 16, 10), v_session = SUBSTRING(v_office, 10, 16);
        IF NOT (v_term <=> a_term) THEN
            SET v_flaw = CONCAT('it is in term ', v_term);
        ELSEIF v_session = 0x00000000000000000000000000000000 THEN
            SET v_flaw = 'nobody holds it';
        ELSEIF v_seen <> v_office THEN
            -- What it has read may be older than what the leader before has written.
            ROLLBACK;
            SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = 'this transaction began to read before the term did, and was rolled back: begin it again';
        ELSE
            SET v_session_key = CONCAT(
                v_root, 0x73657373696F6E, 0x0010, REPLACE(REPLACE(v_session, 0x01, 0x0102), 0x00, 0x0101), 0x00
            );
            -- It never changes, so that its presence is all there is to keep.
            IF v_cluster = 'ON' THEN
                UPDATE tenure_kv SET weight = weight + 1 WHERE name = v_session_key;
                UPDATE tenure_kv SET weight = weight - 1 WHERE name = v_session_key;
            END IF;
            SELECT 1 INTO v_found FROM tenure_kv WHERE name = v_session_key LOCK IN SHARE MODE;
            IF v_found IS NULL THEN
                SET v_flaw = 'the session of its holder has ended';
            END IF;
        END IF;
    END IF;
    IF v_flaw IS NULL THEN
        LEAVE main;
    END IF;
    SET v_message = LEFT(CONCAT(
            'term ', COALESCE(a_term, 'NULL'), ' is not current: ', v_flaw, ', election ', COALESCE(QUOTE(LEFT(a_election, 64)), 'NULL')
        ), 128);
    -- An error alone would leave the transaction to whoever does not look at errors, and to the next START TRANSACTION, which commits it.
    -- It would also leave locks where there is no row, in the way of new ones.
    ROLLBACK;
    SIGNAL SQLSTATE 'TN001' SET MESSAGE_TEXT = v_message;
END
